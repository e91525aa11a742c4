"""A worker: it opens the model once and runs chunks, each from scratch and by itself."""

from __future__ import annotations

import json
from typing import Any

from reviser.corpus import results, sources
from reviser.corpus.job import Chunk, Job
from reviser.corpus.results import Record
from reviser.errors import ConfigError, EngineError, ReviserError
from reviser.models import adapters
from reviser.writing.driver import Driver
from reviser.writing.lines import parse_line, plan_line, used_fields
from reviser.writing.model import load
from reviser.writing.plan import Plan
from reviser.writing.running import run_plans
from reviser.writing.tasks import Continue, Infill, Revise, Task


class Worker:
    """A process with an engine that runs chunks of a job."""

    def __init__(self, output: str) -> None:
        self.job = job = Job.load(output)
        base = job.options.get("base")
        weights = adapters.fingerprint(job.location, base=base, is_remote="url" in job.options)
        if weights != job.weights:
            raise ConfigError(
                f"{job.location!r} on this machine is another model than the one that the job was"
                " begun with. Copy the same files to all machines, or name a hub revision."
            )
        self._model = load(job.location, engine=job.engine, **job.options)
        self._model.provenance |= {"model": job.model, "weights": weights}

    def run(self, number: int) -> int:
        """Run a chunk, unless it is done; return the number of its documents."""
        job, chunk = self.job, self.job.chunk(number)
        name = job.file_name(number)
        if not job.folder.exists(name):
            records = self._records(chunk)
            job.folder.write(name, results.encode(records, job.format))
        return chunk.stop - chunk.start

    def close(self) -> None:
        """Release the engine."""
        self._model.close()

    def _records(self, chunk: Chunk) -> list[Record]:
        job = self.job
        fields = used_fields(job.is_revision)
        wanted = fields if job.text_key is None else (*fields, job.text_key)
        documents = list(
            sources.read(
                chunk.source, chunk.start, chunk.stop, chunk_rows=job.chunk_rows, fields=wanted
            )
        )
        if len(documents) != chunk.stop - chunk.start:
            raise EngineError(f"{chunk.source.name!r} is shorter than it was when the job began.")
        records: list[Record] = [
            {"row": chunk.first_row + n, "id": f"{chunk.source.label}:{chunk.start + n}"}
            for n in range(len(documents))
        ]
        plans = [self._plan(*each) for each in zip(documents, records, strict=True)]
        found = self._run(plans)
        # The engine may have failed for a moment, so each of these documents gets a second chance.
        again = [n for n, result in enumerate(found) if isinstance(result, EngineError)]
        for n, result in zip(again, self._run([plans[n] for n in again]), strict=True):
            found[n] = result
        failed = [result for result in found if isinstance(result, EngineError)]
        if failed and Driver(self._model.engine).probe() is not None:
            raise failed[0]  # the engine is broken, not the documents
        for record, result in zip(records, found, strict=True):
            if isinstance(result, ReviserError):
                record["error"] = str(result)
            else:
                record |= result.to_dict()
                record["text_sha256"] = results.sha256(result.text)
        return records

    def _plan(self, document: Any, record: Record) -> Plan | ReviserError:
        """Return the plan of a document, or why there is none; put its id into its record."""
        job = self.job
        try:
            values = document if isinstance(document, dict) else parse_line(document)
            if isinstance(values, dict):
                if values.get("id") is not None:  # of Parquet it may be a time, or bytes
                    record["id"] = json.loads(json.dumps(values["id"], default=str))
                if job.text_key is not None:
                    values = _renamed(values, job.text_key, used_fields(job.is_revision))
            plan = plan_line(
                self._model,
                values,
                record["row"],
                settings=job.settings,
                is_revision=job.is_revision,
            )
        except ReviserError as error:
            return error
        record["input_sha256"] = results.sha256(_text(plan.task))
        return plan

    def _run(self, plans: list[Plan | ReviserError]) -> list[Any]:
        """Run plans side by side; a driver of their own keeps other chunks' readings out."""
        driver, origin = Driver(self._model.engine), self._model.provenance
        return list(run_plans(plans, driver, origin, on_error="return"))


def _text(task: Task) -> str:
    match task:
        case Continue(text) | Infill(text) | Revise(text):
            return text


def _renamed(values: Record, text_key: str, fields: tuple[str, ...]) -> Record:
    """Return the fields of a document whose text has another name."""
    kept = {name: values[name] for name in fields[2:] if name in values}
    return kept | ({fields[0]: values[text_key]} if text_key in values else {})
