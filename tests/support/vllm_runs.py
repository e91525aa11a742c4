"""A vLLM engine in a process of its own: what to run comes as JSON, what it chose goes as JSON.

A process of its own, because vLLM inside a program changes Transformers' GPT-NeoX and the
environment. Within it the engine is not split further, so that the mask can be broken on purpose.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from reviser.engines import vllm, vllm_requests, wire
from reviser.engines.base import DecodeConfig, Request
from reviser.errors import ReviserError

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the default pins every engine to core 0
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Small, quiet, and alone."""


def to_json(request: Request) -> dict[str, Any]:
    values = {**vars(request), "config": vars(request.config)}
    del values["then"]
    return values


def from_json(fields: dict[str, Any]) -> Request:
    gaps = tuple((low, high) for low, high in fields["gaps"])
    config = DecodeConfig(**fields["config"])
    return Request(
        **{**fields, "history": tuple(fields["history"]), "gaps": gaps, "config": config}
    )


def interpret_triton() -> None:
    """Let vLLM take Triton's interpreter for a device, so that it chooses its second runner."""
    import numpy as np
    from triton.backends import Backend, backends
    from triton.runtime import interpreter

    class Driver:
        @staticmethod
        def is_active() -> bool:
            return True

    class Lenient:
        """The drafts' kernels give masks that are not boolean, which a compiler would convert."""

        def __getattr__(self, name: str) -> Any:
            return getattr(strict, name)

        def load(self, places: Any, mask: Any, other: Any, dtype: Any) -> Any:
            return strict.load(places, np.ascontiguousarray(mask, dtype=bool), other, dtype)

        def store(self, places: Any, values: Any, mask: Any) -> Any:
            return strict.store(places, values, np.ascontiguousarray(mask, dtype=bool))

    strict = interpreter._interpreter
    interpreter._interpreter = Lenient()
    backends["cpu"] = Backend(compiler=backends["nvidia"].compiler, driver=Driver)


def broken(name: str) -> Any:
    """A mask with a fault, to see that the tests notice."""
    from reviser.engines import vllm_state

    if name == "no mask":
        return mock.patch.object(vllm_state._Follower, "_close")
    if name in ("one history", "one config"):
        return one_broken_row(name)
    assert name == "no moves"
    return mock.patch.object(vllm_state.BatchMask, "move")


POISON = 77
"""The `max_edits` of a request on which the mask fails."""


def one_broken_row(name: str) -> Any:
    """Make the mask fail on the request with `POISON`: when it enters, or when it is masked."""
    read = wire.read

    def poisoned(vocab: Any, history: Any, args: Any) -> Request:
        request = read(vocab, history, args)
        if request.config.max_edits == POISON and name == "one history":
            raise ZeroDivisionError("an error of our own")
        if request.config.max_edits == POISON:
            object.__setattr__(request.config, "stop_bias", "much")
        return request

    return mock.patch.object(wire, "read", poisoned)


def counted_drafts(verdicts: Counter[bool]) -> Any:
    """Count the drafts of the second runner that the mask would allow, and those it would not."""
    from reviser.engines.vllm_state import _Follower

    ask = _Follower._are_allowed

    def count(self: Any, rows: Any, actions: Any) -> Any:
        allowed = ask(self, rows, actions)
        verdicts.update(allowed.tolist())
        return allowed

    return mock.patch.object(_Follower, "_are_allowed", count)


def steps_of(engine: Any, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Run requests, some of which are cancelled on the way."""
    rng = Random(5)
    records: list[dict[str, Any]] = [
        {"actions": [], "logprobs": [], "edit_probabilities": [], "ended": None}
        for _ in run["requests"]
    ]
    numbers = {engine.add(from_json(request)): n for n, request in enumerate(run["requests"])}
    live = set(numbers)
    while steps := engine.step():
        for step in steps:
            record = records[numbers[step.request]]
            assert record["ended"] is None
            if step.error is not None:
                record["error"], record["ended"] = str(step.error), "error"
                live.discard(step.request)
                continue
            record["actions"].append(step.action)
            record["logprobs"].append(step.logprob)
            if step.reading is not None:
                record["edit_probabilities"] += step.reading.edit_probabilities()
            record["ended"] = step.ended
            if step.ended is not None:
                live.discard(step.request)
        if rng.random() < run.get("cancel", 0.0) and live:
            number = rng.choice(sorted(live))
            live.discard(number)
            engine.cancel(number)
            records[numbers[number]]["ended"] = "cancelled"
    assert not live
    return records


def refusals(engine: Any, requests: list[dict[str, Any]]) -> list[str]:
    """What is said to each request that should not be taken."""
    said = []
    for request in requests:
        try:
            engine.add(from_json(request))
            said.append("")
        except (ReviserError, ValueError) as error:
            said.append(str(error))
    return said


def run_one(engine: Any, run: dict[str, Any]) -> Any:
    with ExitStack() as stack:
        sampling = vllm_requests.sampling
        extras = dict(run.get("extras", {}))
        if "logit_bias" in extras:
            extras["logit_bias"] = {int(i): bias for i, bias in extras["logit_bias"].items()}
        stack.enter_context(
            mock.patch.object(
                vllm_requests, "sampling", lambda *args: {**sampling(*args), **extras}
            )
        )
        if "args" in run:
            patch = mock.patch.object(wire, "write", return_value=run["args"])
            stack.enter_context(patch)
        if run.get("unchecked"):
            stack.enter_context(mock.patch.object(vllm.VLLMEngine, "check"))
        if "broken" in run:
            stack.enter_context(broken(run["broken"]))
        if run.get("refused"):
            return refusals(engine, run["requests"])
        return steps_of(engine, run)


def main(work: Path) -> None:
    if os.environ.get("TRITON_INTERPRET"):
        interpret_triton()
    answers = []
    for job in json.loads((work / "jobs.json").read_text()):
        times = [time.monotonic()]
        engine, _ = vllm.VLLMEngine.load(job["folder"], **job["options"])
        times.append(time.monotonic())
        core = engine._engine.engine_core.engine_core
        preempt = core.scheduler._preempt_request
        verdicts: Counter[bool] = Counter()
        with (
            mock.patch.object(core.scheduler, "_preempt_request", side_effect=preempt) as preempts,
            counted_drafts(verdicts),
        ):
            runs, counts = [], []
            for run in job["runs"]:
                before = preempts.call_count
                runs.append(run_one(engine, run))
                counts.append(preempts.call_count - before)
                times.append(time.monotonic())
        runner = type(core.model_executor.driver_worker.worker.model_runner).__module__
        answers.append(
            {
                "runs": runs,
                "preemptions": counts,
                "runner": runner,
                "drafts": [verdicts[True], verdicts[False]],
            }
        )
        engine.close()
        loaded, *took = (f"{b - a:.1f}" for a, b in pairwise(times))
        name = Path(job["folder"]).name
        sys.stderr.write(f"{name}: {loaded} s to load, {', '.join(took)} s to run\n")
    (work / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
