"""A worker: it opens the model once and runs chunks, each from scratch and by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from reviser.batch.job import Chunk, Job
from reviser.batch.lines import parse_line, read_task, used_fields
from reviser.batch.results import Record, encode, sha256
from reviser.batch.sources import read
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError, EngineError, ReviserError
from reviser.model import Reviser, load
from reviser.models import hub
from reviser.writing.driver import Flow, Inline, run_many
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise, Task

Asked: TypeAlias = tuple[Task, DecodeConfig] | ReviserError
"""What to do with a document, or why nothing can be done with it."""
Outcome: TypeAlias = Rollout | Revision | ReviserError


class Worker:
    """A process with an engine that runs chunks of a job."""

    def __init__(self, output: str) -> None:
        self.job = job = Job.load(output)
        weights = hub.fingerprint_of(job.location, is_remote="url" in job.options)
        if weights != job.weights:
            raise ConfigError(
                f"{job.location!r} on this machine is another model than the one that the job was"
                " begun with. Copy the same files to all machines, or name a hub revision."
            )
        self._model = load(job.location, engine=job.engine, **job.options)
        self._model.provenance |= {"model": job.model, "weights": weights}

    def close(self) -> None:
        """Release the engine."""
        self._model.close()

    def run(self, number: int) -> Iterator[int]:
        """Run a chunk, unless it is done; yield numbers of documents as they are finished."""
        job, chunk = self.job, self.job.chunks[number]
        if job.folder.exists(job.file_name(number)):
            yield len(chunk)
            return
        documents = self._read(chunk)
        records = [self._new_record(chunk, n) for n in range(len(chunk))]
        asked = [self._ask(*each) for each in zip(documents, records, strict=True)]
        outcomes: list[Outcome] = []
        for outcome in run_tasks(self._model, asked):
            outcomes.append(outcome)
            yield 1
        # The engine may have failed for a moment, so each of these documents gets a second chance.
        again = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, EngineError)]
        found = run_tasks(self._model, [asked[n] for n in again])
        for n, outcome in zip(again, found, strict=True):
            outcomes[n] = outcome
        if any(isinstance(outcome, EngineError) for outcome in outcomes):
            # If the engine is broken, and not the documents, this raises its error.
            self._model.run(Revise("a") if job.is_revision else Continue("a"), max_actions=1)
        for record, outcome in zip(records, outcomes, strict=True):
            if isinstance(outcome, ReviserError):
                record["error"] = str(outcome)
                continue
            record |= outcome.to_dict()
            if not job.is_one_file:
                record["text_sha256"] = sha256(outcome.text)
        job.folder.write(job.file_name(number), encode(records, job.format))

    def _read(self, chunk: Chunk) -> list[Any]:
        job, fields = self.job, used_fields(self.job.is_revision, self.job.text_key)
        found = read(chunk.source, chunk.start, chunk.stop, job.chunk_rows, fields)
        documents = list(found)
        if len(documents) != len(chunk):
            raise EngineError(f"{chunk.source.name!r} is shorter than it was when the job began.")
        return documents

    def _new_record(self, chunk: Chunk, n: int) -> Record:
        row = chunk.first_row + n
        if self.job.is_one_file:
            return {"line": row + 1}
        return {"row": row, "id": f"{chunk.source.label}:{chunk.start + n}"}

    def _ask(self, document: Any, record: Record) -> Asked:
        """Return what to do with a document, or why there is nothing; add to its record."""
        job = self.job
        try:
            values = document if isinstance(document, dict) else parse_line(document)
            if isinstance(values, dict) and values.get("id") is not None:
                # In Parquet, it may be a time, or bytes.
                record["id"] = json.loads(json.dumps(values["id"], default=str))
            row = record["row"] if "row" in record else record["line"] - 1
            task, config = read_task(values, row, job.settings, job.is_revision, job.text_key)
        except ReviserError as error:
            return error
        match task:
            case Continue(text) | Infill(text) | Revise(text) if not job.is_one_file:
                record["input_sha256"] = sha256(text)
        return task, config


def run_tasks(model: Reviser, asked: list[Asked]) -> Iterator[Outcome]:
    """Run tasks side by side, each with its settings; yield results or errors in order.

    A chunk that is run again is equal byte for byte, because the same tasks share the same steps.
    """
    flows = (
        _refuse(each) if isinstance(each, ReviserError) else model.flow(*each) for each in asked
    )
    for run in run_many(flows, Inline(model.engine)):
        if run.error is None:
            yield run.result
        elif isinstance(run.error, ReviserError):
            yield run.error
        else:
            raise run.error


def _refuse(error: ReviserError) -> Flow[Outcome]:
    """Fail, in place of a flow that there is not."""
    raise error
    yield []
