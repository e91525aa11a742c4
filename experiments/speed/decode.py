"""Measure what the mask costs when decoding, and compare the engines (`just bench-decode`).

All variants take turns with the same number of steps from the same prefixes on the same trunk. A
ratio is the median over the rounds with its quartiles; the ratio of two identical variants shows
the noise. Wall times can be too noisy to show the mask, so its share of a step is measured on its
own. In vLLM's environment, `--engines hf vllm` measures both engines, and `--searches` a vocabulary
with every operator and searches.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import psutil
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from experiments.speed.core import Timing, ratio, take_turns
from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.mask import ActionMask
from reviser.engines import vllm_process
from reviser.engines.base import Act, DecodeConfig, Engine, Request
from reviser.engines.logits import LogitsMask
from reviser.engines.vllm_process import VLLMProcess, words_of
from reviser.engines.vllm_server import VLLMServer

PREFIX = 35
TOKENS = 50_257


def prefixes(batch: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 1000, (batch, PREFIX)).tolist()


def drive(engine: Engine, batch: int, steps: int, vocab: ActionVocab) -> Callable[[], int]:
    """Return a function that decodes exactly `steps` actions per row, since STOP is biased away."""
    config = DecodeConfig(max_actions=steps, stop_bias=-1e9)

    def run() -> int:
        requests = [Request.continuation(vocab, prefix, config) for prefix in prefixes(batch)]
        running, count = {engine.add(Act(request)) for request in requests}, 0
        while running:
            answers = engine.step(0.05)
            count += len(answers)
            running -= {answer.number for answer in answers if answer.is_last}
        assert count == steps * batch, count
        return steps

    return run


class Stopwatch:
    """A stopwatch for the time spent in some methods of a class."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def watching(self, owner: type, *names: str) -> Iterator[None]:
        """Time every call of some methods inside the block."""
        kept = {name: getattr(owner, name) for name in names}
        for name in names:
            self._watch(owner, name)
        try:
            yield
        finally:
            for name, method in kept.items():
                setattr(owner, name, method)

    def _watch(self, owner: type, name: str) -> None:
        inner = getattr(owner, name)

        def timed(*args: object, **named: object) -> object:
            start = time.perf_counter()
            try:
                return inner(*args, **named)
            finally:
                self.seconds += time.perf_counter() - start

        setattr(owner, name, timed)


def show(name: str, top: Timing, bottom: Timing) -> None:
    middle, low, high = ratio(top, bottom)
    print(f"  {name:<42} {middle:6.3f}  [{low:.3f}, {high:.3f}]")


# -- Transformers ---------------------------------------------------------------------------------


def bench_hf(
    folder: Path, batches: list[int], steps: int, rounds: int, clock: Callable[[], float]
) -> dict[int, Timing]:
    from reviser.engines.hf import HFEngine
    from reviser.models.trunks import load

    model, vocab = load(folder, dtype=torch.bfloat16)
    kept = {}
    apply, advance = LogitsMask.apply, ActionMask.advance
    for batch in batches:
        masked = HFEngine(model, vocab, rows=batch)
        ids = torch.tensor([vocab.prefix_actions(prefix) for prefix in prefixes(batch)])

        def bare(ids: torch.Tensor = ids) -> int:
            settings = {"do_sample": True, "temperature": 0.9, "top_k": 50, "pad_token_id": 0}
            most = {"max_new_tokens": steps, "min_new_tokens": steps, "use_cache": True}
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings, **most)
            assert out.shape[1] == ids.shape[1] + steps
            return steps

        def unmasked(batch: int = batch, masked: Engine = masked) -> int:
            LogitsMask.apply = lambda *_: None
            ActionMask.advance = lambda *_: None
            try:
                return drive(masked, batch, steps, vocab)()
            finally:
                LogitsMask.apply, ActionMask.advance = apply, advance

        arms = {"bare": bare, "bare again": bare, "unmasked": unmasked}
        arms |= {"masked": drive(masked, batch, steps, vocab)}
        with torch.no_grad():
            times = take_turns(arms, rounds, clock)
        print(f"Transformers, {batch} at a time, {steps} steps, {rounds} rounds")
        show("throughput masked / bare generate()", times["bare"], times["masked"])
        show("throughput masked / this loop without mask", times["unmasked"], times["masked"])
        show("bare / bare again, the noise", times["bare"], times["bare again"])
        watch = Stopwatch()
        with watch.watching(LogitsMask, "apply"), watch.watching(ActionMask, "advance"):
            start = time.perf_counter()
            drive(masked, batch, steps, vocab)()
            share = watch.seconds / (time.perf_counter() - start)
        print(f"  {'share of the mask in a step':<42} {share:6.2%}")
        kept[batch] = times["masked"]
    return kept


# -- the mask alone -------------------------------------------------------------------------------


def bench_mask(rounds: int) -> None:
    """Measure a step's mask by vocabulary, canvas and cursor, relative to reading the logits."""
    print("the mask of 64 rows, microseconds per row (median), by vocabulary and canvas")
    for tokens in (50_000, 250_000):
        vocab = ActionVocab.build(tokens)
        logits = torch.randn(64, vocab.size)
        mask = LogitsMask(vocab)
        start = time.perf_counter()
        for _ in range(rounds):
            logits.logsumexp(-1)
        reading = (time.perf_counter() - start) / rounds
        for length in (100, 10_000):
            for where in ("in a gap", "in locked text"):
                rows = ActionMask(vocab, 64)
                cursor = length if where == "in a gap" else length - 5
                for row in range(64):
                    gaps = [(length // 2, length // 2), (length, length)]
                    rows.reset(row, length=length, cursor=cursor, editable=gaps)
                taken = []
                for _ in range(rounds):
                    own = logits.clone()
                    begun = time.perf_counter()
                    mask.apply(own, rows)
                    rows.fork().advance(np.full(64, vocab.stop))
                    taken.append(time.perf_counter() - begun)
                cost = statistics.median(taken)
                print(
                    f"  {tokens:>7,} tokens, canvas {length:>6,}, {where:<15} "
                    f"{cost / 64 * 1e6:6.2f} us; {cost / reading:.2f} of reading the logits once"
                )


# -- vLLM -----------------------------------------------------------------------------------------


class BareServer(VLLMServer):
    """The client of a vLLM without the mask: it sends no arguments and takes every id."""

    def _open(self, model: str | None) -> tuple[str, int]:
        found = self._served(model)
        vocab = self.vocab
        # Every id counts as one that may come, and none as STOP.
        self.vocab = SimpleNamespace(size=2 * vocab.size, kinds=np.zeros(2 * vocab.size), stop=-1)
        return found

    def check(self, request: Request) -> None:
        """Accept every request."""

    def _body(self, request: Request) -> dict[str, Any]:
        body = super()._body(request)
        del body["vllm_xargs"], body["stop_token_ids"]
        return body


@contextmanager
def vllm_engines(folder: Path, options: dict[str, Any]) -> Iterator[tuple[Engine, Engine]]:
    """Start two servers, with and without the mask."""
    masked, _ = VLLMServer.load(folder, **options)
    with mock.patch.object(vllm_process, "words_of", return_value=words_without_mask(options)):
        process = VLLMProcess(folder, options)
    bare = BareServer(process.url, masked.vocab, api_key=process.key)
    try:
        yield masked, bare
    finally:
        bare.close()
        process.close()
        masked.close()


def words_without_mask(options: dict[str, Any]) -> list[str]:
    words = words_of(options)
    at = words.index("--logits-processors")
    return [*words[:at], *words[at + 2 :]]


def processor_seconds() -> float:
    """Return the processor time of this process and of all that it has started."""
    here = psutil.Process()
    times = [each.cpu_times() for each in (here, *here.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def bench_vllm(
    folder: Path, batches: list[int], steps: int, rounds: int, clock: Callable[[], float]
) -> dict[int, Timing]:
    kept = {}
    options = {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 256}
    options |= {"max_num_batched_tokens": 4096, "max_num_seqs": max(batches)}
    vocab = ActionVocab.load(folder)
    with vllm_engines(folder, options) as (engine, unmasked):
        for batch in batches:
            bare = drive(unmasked, batch, steps, vocab)
            arms = {"bare": bare, "bare again": bare, "masked": drive(engine, batch, steps, vocab)}
            times = take_turns(arms, rounds, clock)
            print(f"vLLM over HTTP, {batch} at a time, {steps} steps, {rounds} rounds")
            show("throughput masked / bare", times["bare"], times["masked"])
            show("bare / bare again, the noise", times["bare"], times["bare again"])
            kept[batch] = times["masked"]
    return kept


def paper_100m(folder: Path, *, searches: bool) -> Path:
    """Save the paper's 100M trunk with fresh weights."""
    from reviser.models.trunks import TrunkConfig, build, save

    pieces = {f"{n:x}": n for n in range(TOKENS)}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    more = {"operators": OPERATORS, "marks": True, "search": True} if searches else {}
    vocab = ActionVocab.from_tokenizer(tokenizer, **more)
    save(build(TrunkConfig(), vocab).to(torch.bfloat16), tokenizer, vocab, folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 16, 64])
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engines", nargs="*", default=["hf"], choices=["hf", "vllm"])
    parser.add_argument("--searches", action="store_true")
    parser.add_argument(
        "--processor", action="store_true", help="Count processor seconds, for a busy machine."
    )
    given = parser.parse_args()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    clock = processor_seconds if given.processor else time.perf_counter
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = paper_100m(Path(name), searches=given.searches)
        found = [
            {"hf": bench_hf, "vllm": bench_vllm}[engine](
                folder, given.batches, given.steps, given.rounds, clock
            )
            for engine in given.engines
        ]
    if len(found) == 2:
        for batch, first in found[0].items():
            show(f"throughput {' / '.join(given.engines[::-1])}, {batch}", first, found[1][batch])
    if "hf" in given.engines:
        bench_mask(30)


if __name__ == "__main__":
    main()
