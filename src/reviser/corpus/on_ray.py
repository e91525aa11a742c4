"""Chunks on a Ray cluster: Ray Data keeps a pool of actors, each with the model open.

What flows through Ray Data are chunk numbers. An actor reads its documents and writes its file
itself, so texts never pass through Ray's object store, and a file has the same name and content
on every cluster. Ray restarts an actor that dies and gives its chunks out again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from reviser.corpus.job import Job
from reviser.corpus.worker import Worker
from reviser.errors import EngineError, MissingExtra, ReviserError, reason_of

_BLOCKS = 10_000
"""Most blocks of chunk numbers. A block is what Ray gives to an actor, or gives out again."""


class _ChunkActor:
    """An actor that runs the chunks whose numbers it gets."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._worker: Worker | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        # Not in the constructor: Ray would not say why it failed.
        worker = self._worker = self._worker or Worker(self._output)
        return {"documents": [worker.run(int(number)) for number in batch["chunk"]]}


def run(job: Job, missing: list[int], workers: int, options: Mapping[str, Any]) -> Iterator[int]:
    """Run chunks in as many actors as there are workers; yield the documents of each."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtra(
            f"--on ray needs the ray extra: {error.name} is not installed. Install it with:"
            " pip install 'reviser-lm[ray]'."
        ) from error
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    ray.data.DataContext.get_current().raise_original_map_exception = True
    if not ray.is_initialized():
        ray.init(log_to_driver=False)  # the cluster of RAY_ADDRESS, or a new local one
    numbers = ray.data.from_items(
        [{"chunk": n} for n in missing], override_num_blocks=min(len(missing), _BLOCKS)
    )
    done = numbers.map_batches(
        _ChunkActor,
        fn_constructor_args=(job.output,),
        batch_size=1,
        **{"compute": ray.data.ActorPoolStrategy(size=workers), **options},
    )
    try:
        for row in done.iter_rows():
            yield int(row["documents"])
    except ray.exceptions.RayError as error:
        cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
        if isinstance(cause, ReviserError):
            raise cause from error
        raise EngineError(
            f"Ray stopped: {reason_of(cause)}. Finished chunks are kept; run the same command again"
            " to continue."
        ) from error
