"""Measure what the mask costs when decoding, and compare the engines (`just bench-decode`).

All variants take turns with the same number of steps from the same prefixes on the same trunk. A
ratio is the median over the rounds with its quartiles; the ratio of two identical variants shows
the noise. Wall times can be too noisy to show the mask, so its share of a step is measured on its
own. `--vllm`, in vLLM's environment, measures both engines.
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

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from experiments.speed.core import Timing, ratio, take_turns
from reviser.core.actions import ActionVocab
from reviser.core.mask import Boundary
from reviser.engines.base import DecodeConfig, Engine, Request
from reviser.engines.logits import LogitsMask
from reviser.writing.driver import Driver

PREFIX = 35
TOKENS = 50_257


def prefixes(batch: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 1000, (batch, PREFIX)).tolist()


def drive(engine: Engine, batch: int, steps: int) -> Callable[[], int]:
    """Return a function that decodes exactly `steps` actions per row, since STOP is biased away."""
    config = DecodeConfig(max_actions=steps, stop_bias=-1e9)

    def run() -> int:
        requests = [
            Request.continuation(engine.vocab, prefix, config) for prefix in prefixes(batch)
        ]
        count = sum(1 for _ in Driver(engine).run(requests))
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


def bench_hf(folder: Path, batches: list[int], steps: int, rounds: int) -> dict[int, Timing]:
    from reviser.engines.hf import HFEngine
    from reviser.models.trunks import load

    model, vocab = load(folder, dtype=torch.bfloat16)
    kept = {}
    apply, advance = LogitsMask.apply, Boundary.advance
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
            Boundary.advance = lambda *_: None
            try:
                return drive(masked, batch, steps)()
            finally:
                LogitsMask.apply, Boundary.advance = apply, advance

        arms = {"bare": bare, "bare again": bare, "unmasked": unmasked}
        arms |= {"masked": drive(masked, batch, steps)}
        with torch.no_grad():
            times = take_turns(arms, rounds)
        print(f"Transformers, {batch} at a time, {steps} steps, {rounds} rounds")
        show("throughput masked / bare generate()", times["bare"], times["masked"])
        show("throughput masked / this loop without mask", times["unmasked"], times["masked"])
        show("bare / bare again, the noise", times["bare"], times["bare again"])
        watch = Stopwatch()
        with watch.watching(LogitsMask, "apply"), watch.watching(Boundary, "advance"):
            start = time.perf_counter()
            drive(masked, batch, steps)()
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
                rows = Boundary(vocab, 64)
                cursor = length if where == "in a gap" else length - 5
                for row in range(64):
                    gaps = [(length // 2, length // 2), (length, length)]
                    rows.reset(row, length=length, cursor=cursor, gaps=gaps)
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


def bench_vllm(folder: Path, batches: list[int], steps: int, rounds: int,
               hf: dict[int, Timing]) -> None:  # fmt: skip
    from vllm import LLM, EngineArgs, SamplingParams
    from vllm.v1.engine.llm_engine import LLMEngine

    from reviser.engines.vllm import VLLMEngine
    from reviser.engines.vllm_plugin import ReviserMask

    options = {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 256}
    options |= {"enable_chunked_prefill": False, "max_num_batched_tokens": 4096}
    engine, _ = VLLMEngine.load(folder, **options)
    same = EngineArgs(str(folder), skip_tokenizer_init=True, disable_log_stats=True, **options)
    unmasked = VLLMEngine(LLMEngine.from_engine_args(same), engine.vocab)
    plain = LLM(str(folder), skip_tokenizer_init=True, disable_log_stats=True, **options)
    # As our engine asks for them: one seed per row, and log-probabilities.
    common = {"temperature": 0.9, "top_k": 50, "max_tokens": steps, "ignore_eos": True}
    common |= {"detokenize": False, "logprobs": 0}
    for batch in batches:
        prompts = [{"prompt_token_ids": engine.vocab.prefix_actions(p)} for p in prefixes(batch)]

        def bare(prompts: list = prompts) -> int:
            settings = [SamplingParams(seed=0, **common) for _ in prompts]
            plain.generate(prompts, settings, use_tqdm=False)
            return steps

        times = take_turns(
            {
                "bare": bare,
                "bare again": bare,
                "unmasked": drive(unmasked, batch, steps),
                "masked": drive(engine, batch, steps),
            },
            rounds,
        )
        print(f"vLLM, {batch} at a time, {steps} steps, {rounds} rounds")
        show("throughput masked / bare LLM.generate()", times["bare"], times["masked"])
        show("throughput masked / streamed without mask", times["unmasked"], times["masked"])
        show("bare / bare again, the noise", times["bare"], times["bare again"])
        watch = Stopwatch()
        with watch.watching(ReviserMask, "update_state", "apply"):
            start = time.perf_counter()
            drive(engine, batch, steps)()
            share = watch.seconds / (time.perf_counter() - start)
        print(f"  {'share of the mask in a step':<42} {share:6.2%}")
        count = min(len(times["masked"]), len(hf[batch]))
        show("throughput vLLM / Transformers, masked", hf[batch][:count], times["masked"][:count])


def paper_100m(folder: Path) -> Path:
    """Save the paper's 100M trunk with fresh weights."""
    from reviser.models.trunks import TrunkConfig, build, save

    pieces = {f"{n:x}": n for n in range(TOKENS)}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    vocab = ActionVocab.from_tokenizer(tokenizer)
    save(build(TrunkConfig(), vocab).to(torch.bfloat16), tokenizer, vocab, folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 16, 64])
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--vllm", action="store_true", help="Measure vLLM, too; needs its environment."
    )
    given = parser.parse_args()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # so that the mask can be timed
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = paper_100m(Path(name))
        hf = bench_hf(folder, given.batches, given.steps, given.rounds)
        if given.vllm:
            bench_vllm(folder, given.batches, given.steps, given.rounds, hf)
    bench_mask(30)


if __name__ == "__main__":
    main()
