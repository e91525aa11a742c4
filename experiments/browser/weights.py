"""Compare ways to store the weights of an exported model: size, greedy texts, perplexity.

STORIES is a file of `experiments.stories.sample_corpus` with a seed that no training used, so the
stories are held out.

    python -m experiments.stories.sample_corpus STORIES15M -o STORIES --batches 1 --seed 99
    python -m experiments.browser.weights models/stories-revise STORIES
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from reviser import ActionMask, ActionVocab, Codec
from reviser.engines.base import DecodeConfig, Request
from reviser.engines.logits import LogitsMask
from reviser.export.onnx import MODEL_FILE, export_onnx
from reviser.writing.prompts import Model, prompts_of
from reviser.writing.tasks import Continue, Infill

WHO = ["dog", "girl named Lily", "boy who had a red ball", "cat with a hat", "bird", "frog", "bear"]
STARTS = ["Once upon a time, there was a little", "One day, a big", "In the park there was a"]
GAPS = [
    f"{name} went to the {place}.{{}} {name} was {mood}."
    for name in ("Tom", "Mia", "Ben")
    for place in ("park", "lake", "shop")
    for mood in ("sad", "very happy", "tired")
]
PROMPTS = [f"{start} {who}" for start in STARTS for who in WHO] + GAPS + ["", "The"]


class Graph:
    """An exported model that reads ids."""

    def __init__(self, path: Path, shape: list[int]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options)
        self.names = [each.name for each in self.session.get_inputs()]
        layers, heads, width = shape
        self.empty = [np.zeros((1, heads, 0, width), np.float32)] * (2 * layers)

    def read(self, ids: list[int], past: list[Any]) -> tuple[Any, list[Any]]:
        """Return the logits after each id, and the longer cache."""
        feed = dict(zip(self.names, [np.array([ids]), *past], strict=True))
        logits, *present = self.session.run(None, feed)
        return logits[0], present


def greedy(graph: Graph, vocab: ActionVocab, request: Request, context: int) -> list[int]:
    """Return the most likely actions after a history."""
    rows, mask, actions = ActionMask(vocab, 1), LogitsMask(vocab), list[int]()
    request.enter(rows, 0)
    logits, past = graph.read(list(request.history), graph.empty)
    while len(actions) < 256 and len(request.history) + len(actions) < context:
        scores = torch.from_numpy(logits[-1:].copy())
        mask.apply(scores, mask.plan(rows, [request.config]))
        actions.append(int(scores.argmax()))
        if actions[-1] == vocab.stop:
            break
        rows.advance(actions[-1:])
        logits, past = graph.read(actions[-1:], past)
    return actions


def nats(graph: Graph, vocab: ActionVocab, stories: list[list[int]]) -> float:
    """Return the mean negative log-likelihood of the tokens of stories, written left to right."""
    losses = []
    for tokens in stories:
        ids = vocab.prefix_actions(tokens[:1]) + tokens[1:]
        logits = torch.from_numpy(graph.read(ids, graph.empty)[0])
        at = len(ids) - len(tokens)
        targets = torch.tensor(ids[at + 1 :])
        losses.append(torch.nn.functional.cross_entropy(logits[at:-1], targets, reduction="none"))
    return float(torch.cat(losses).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("stories", type=Path)
    parser.add_argument("--count", type=int, default=100, help="Number of stories to read.")
    arguments = parser.parse_args()
    vocab, codec = ActionVocab.load(arguments.model), Codec.load(arguments.model)
    lines = arguments.stories.read_text("utf-8").splitlines()[: arguments.count]
    stories = [codec.encode(json.loads(line)["text"])[:256] for line in lines]
    tasks = [Infill(text) if "{}" in text else Continue(text) for text in PROMPTS]
    config = DecodeConfig(temperature=0)
    model = Model(vocab=vocab, codec=codec, context=sys.maxsize)
    requests = [prompts_of(task, model, config)[0].request for task in tasks]
    reference: tuple[list[list[int]], float] | None = None
    print("| weights | MB | same greedy actions | perplexity ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for kind in ("float32", "bfloat16", "int8"):
            export_onnx(arguments.model, Path(folder) / kind, weights=kind)
            paths[kind] = Path(folder) / kind / MODEL_FILE
        facts = json.loads((Path(folder) / "int8" / "model.json").read_text("utf-8"))
        paths["int8, activations too"] = Path(folder) / "dynamic.onnx"
        quantize_dynamic(
            paths["float32"],
            paths["int8, activations too"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"DefaultTensorType": 1},
        )
        for kind, path in paths.items():
            graph = Graph(path, facts["cache"])
            texts = [greedy(graph, vocab, each, facts["context"]) for each in requests]
            loss = nats(graph, vocab, stories)
            reference = reference or (texts, loss)
            same = sum(a == b for a, b in zip(texts, reference[0], strict=True))
            megabytes = path.stat().st_size / 1e6
            ratio = exp(loss - reference[1])
            print(
                f"| {kind} | {megabytes:.1f} | {same} of {len(texts)} | {ratio:.4f} |", flush=True
            )


if __name__ == "__main__":
    main()
