"""The texts to evaluate: samples of any system, and the prompts that they continue.

This module knows files and tokenizers, but not models or measures. A reviser system comes as a file
of rollouts, any other as JSON lines; both become samples here.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reviser.core.codec import Codec
from reviser.errors import ConfigError, DataError, TrajectoryError
from reviser.files import read_objects, write_whole
from reviser.writing.rollout import Rollout

FORMAT = 1
"""Version of an evaluation's record; a report refuses others."""
REFERENCE = "reference"
"""Name of the documents themselves among the systems."""
MANIFEST = "made.json"
"""File next to prompts that says what they were chosen from and how."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The beginning of a document, and the rest of it as the reference."""

    id: str
    """Id of the document: equal for equal documents, in every file and for every seed."""
    prompt: str
    reference: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One system's continuation of one prompt."""

    system: str
    id: str
    """Id of the prompt; samples that share it are not independent."""
    prompt: str
    continuation: str
    """The text after the prompt, with the space between them if there is one."""
    reference: str | None = None
    rollout: Rollout | None = None

    @property
    def text(self) -> str:
        """The prompt and the continuation."""
        return self.prompt + self.continuation


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The choice of documents and prompts; the defaults are the paper's."""

    prefix_tokens: int = 35
    """Tokens of a document that form the prompt."""
    total_tokens: int = 180
    """Length at which the reference is cut and a system stops, prompt included."""
    min_tokens: int = 144
    """Shorter documents are not used."""
    max_tokens: int = 216
    """Longer documents are not used."""
    prompts: int = 1000
    """Number of prompts per seed."""
    seeds: tuple[int, ...] = (123, 124, 125)
    """Seeds; each draws its own prompts and has its own random numbers for the rollouts."""

    def __post_init__(self) -> None:
        if self.prompts < 1 or not self.seeds:
            raise ConfigError("A protocol needs 1 prompt or more for each of 1 seed or more.")
        if not 0 < self.prefix_tokens < min(self.min_tokens, self.total_tokens):
            raise ConfigError(
                f"prefix_tokens is {self.prefix_tokens}; it must be above 0, and below min_tokens"
                f" ({self.min_tokens}) and total_tokens ({self.total_tokens})."
            )
        if self.max_tokens < self.min_tokens:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}, below min_tokens, which is {self.min_tokens}."
            )


def choose_prompts(
    documents: Iterable[str], codec: Codec, protocol: Protocol | None = None
) -> tuple[dict[int, list[Prompt]], Counter[str]]:
    """Return the prompts that each seed draws, and the number of documents left out by reason.

    The rank of a document in a draw is a hash of seed and text, so neither the order of documents
    nor another document changes the draw. Repeated documents count once.
    """
    protocol, left_out = protocol or Protocol(), Counter[str]()
    seen: set[str] = set()
    drawn: dict[int, list[tuple[int, str, Prompt]]] = {seed: [] for seed in protocol.seeds}
    for document in documents:
        prompt = _cut(document, codec, protocol)
        if isinstance(prompt, str):
            left_out[prompt] += 1
        elif prompt.id in seen:
            left_out["repeated"] += 1
        else:
            seen.add(prompt.id)
            for seed, heap in drawn.items():
                rank = int.from_bytes(_hash(f"{seed} {prompt.id}").digest())
                entry = (-rank, prompt.id, prompt)  # a heap pops its smallest entry first
                if len(heap) < protocol.prompts:
                    heapq.heappush(heap, entry)
                else:
                    heapq.heappushpop(heap, entry)
    if len(seen) < protocol.prompts:
        counts = ", ".join(f"{reason}: {count}" for reason, count in left_out.items())
        raise DataError(
            f"Only {len(seen)} documents can be used, of the {protocol.prompts} that each seed"
            f" draws (left out: {counts or 'nothing'}). Give more text, ask for fewer prompts, or"
            " change min_tokens and max_tokens."
        )
    return {
        seed: [prompt for *_, prompt in sorted(heap, reverse=True)] for seed, heap in drawn.items()
    }, left_out


def _cut(document: str, codec: Codec, protocol: Protocol) -> Prompt | str:
    """Return the prompt and reference of a document, or the reason why there is none."""
    tokens = codec.encode(document)
    if not protocol.min_tokens <= len(tokens) <= protocol.max_tokens:
        return f"not of {protocol.min_tokens} to {protocol.max_tokens} tokens"
    prompt = codec.decode(tokens[: protocol.prefix_tokens])
    # Not every prefix of the tokens is a text of its own: the cut may split a character, or end
    # with white space that is tokenized differently at the end of a text.
    if not document.startswith(prompt) or codec.encode(prompt) != tokens[: protocol.prefix_tokens]:
        return "no whole prefix"
    whole = document
    if len(tokens) > protocol.total_tokens:
        ends = range(protocol.total_tokens, protocol.prefix_tokens - 1, -1)
        texts = (codec.decode(tokens[:end]) for end in ends)
        whole = next(text for text in texts if document.startswith(text))
    identity = _hash(document).hexdigest()[:16]
    return Prompt(id=identity, prompt=prompt, reference=whole[len(prompt) :])


def describe_prompts(
    protocol: Protocol, sources: Sequence[str], codec: Codec, content: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return everything that files of prompts depend on, for JSON.

    `content` identifies the content of the sources.
    """
    about = {
        "protocol": asdict(protocol),
        "data": ", ".join(Path(source).name for source in sources),
        "content": list(content),
        "tokenizer": codec.fingerprint,
    }
    found: dict[str, Any] = json.loads(json.dumps(about, default=str))
    return found


def read_prompts_manifest(prompts: Iterable[Path]) -> dict[str, Any]:
    """Return protocol and data of files of prompts, for a record, if one manifest covers all."""
    manifests = {(path if path.is_dir() else path.parent) / MANIFEST for path in prompts}
    if len(manifests) != 1 or not (manifest := manifests.pop()).is_file():
        return {}
    try:
        about = json.loads(manifest.read_text("utf-8"))
        return {name: about[name] for name in ("protocol", "data")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"Cannot read {str(manifest)!r}: {error!r}.") from error


def write_prompts(path: Path, prompts: Iterable[Prompt]) -> None:
    """Write a file that `reviser generate --input` reads, with the references."""
    write_whole(path, "".join(_line(asdict(prompt)) for prompt in prompts))


def read_prompts(path: Path) -> list[Prompt]:
    """Read the prompts that `write_prompts` wrote."""
    prompts: dict[str, Prompt] = {}
    for line, fields in read_objects(path):
        prompt = Prompt(
            id=_identity(fields, line, None),
            prompt=_text(fields, "prompt", line),
            reference=_text(fields, "reference", line),
        )
        if prompts.setdefault(prompt.id, prompt) != prompt:
            raise DataError(f"{line} has the id {prompt.id!r} of another prompt.")
    return list(prompts.values())


def read_systems(pairs: Iterable[str], prompts: Iterable[Path] = ()) -> dict[str, list[Sample]]:
    """Return the samples of each system: `pairs` are NAME=PATH, or paths named after systems.

    Paths are files or folders of files; so are `prompts`, which add the references.
    """
    references = [
        prompt for path in prompts for file in _files(path) for prompt in read_prompts(file)
    ]
    systems: dict[str, dict[Path, list[Sample]]] = {}
    for name, path in named_paths(pairs):
        for file in _files(Path(path)):
            files = systems.setdefault(name, {})
            if file in files:
                raise DataError(f"{str(file)!r} is given twice for {name!r}.")
            files[file] = read_samples(file, system=name, prompts=references)
    return {name: [s for some in files.values() for s in some] for name, files in systems.items()}


def named_paths(pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and path of each NAME=PATH; a path alone is named by its last part."""
    for words in pairs:
        name, equals, path = words.partition("=")
        name, path = (name, path) if equals else (Path(words).stem, words)
        if not name or not path:
            raise DataError(f"Give NAME=PATH; got {words!r}.")
        yield name, path


def _files(path: Path) -> list[Path]:
    """Return the file itself, or the files of JSON lines in a folder."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"There are no .jsonl files in {str(path)!r}.")
    return files


def read_samples(
    path: Path, *, system: str | None = None, prompts: Iterable[Prompt] = ()
) -> list[Sample]:
    """Read the samples of a file of rollouts, or of JSON lines that another system wrote.

    Such a line has a `prompt` and either a `text` that begins with it, or only the `continuation`.
    An `id` of the prompt (by default the line number) and a `reference` are optional. Lines with
    the same id are several samples of one prompt. `system` overrides the system of the lines, and
    `prompts` adds references by id.
    """
    references = {prompt.id: prompt for prompt in prompts}
    fallback = system or path.stem
    samples = [
        _sample(fields, line, fallback, system, references) for line, fields in read_objects(path)
    ]
    if not samples:
        raise DataError(f"There are no samples in {str(path)!r}.")
    return samples


def _sample(
    fields: dict[str, Any],
    line: str,
    fallback: str,
    system: str | None,
    references: Mapping[str, Prompt],
) -> Sample:
    if "error" in fields:
        raise DataError(
            f"{line} holds an error instead of a text ({fields['error']}). Write it again, or"
            " remove the line for every system that is compared."
        )
    rollout = _rollout(fields, line)
    prompt, reference = _text(fields, "prompt", line), fields.get("reference")
    identity = _identity(fields, line, fields.get("line"))
    if identity in references:
        if references[identity].prompt != prompt:
            raise DataError(f"{line} has a different text for prompt {identity!r}.")
        reference = references[identity].reference
    elif references:
        raise DataError(f"{line} continues prompt {identity!r}, which is not among the prompts.")
    named = system or fields.get("system", fallback)
    if not isinstance(named, str):
        raise DataError(f"{line} has the system {named!r}; it must be a text.")
    if not isinstance(reference, str | None):
        raise DataError(f"{line} has a 'reference' that is not a text.")
    return Sample(
        system=named,
        id=identity,
        prompt=prompt,
        continuation=_continuation(fields, prompt, line),
        reference=reference,
        rollout=rollout,
    )


def _rollout(fields: dict[str, Any], line: str) -> Rollout | None:
    """Return the rollout that a line is, or that it holds, if there is one."""
    found = fields if "trajectory" in fields else fields.get("rollout")
    if found is None:
        return None
    try:
        return Rollout.from_json(json.dumps(found))
    except TrajectoryError as error:
        raise DataError(f"{line}: {error}") from error


def _continuation(fields: dict[str, Any], prompt: str, line: str) -> str:
    if ("text" in fields) == ("continuation" in fields):
        raise DataError(f"{line} must have either a 'text' or a 'continuation'.")
    if "continuation" in fields:
        return _text(fields, "continuation", line)
    text = _text(fields, "text", line)
    if not text.startswith(prompt):
        raise DataError(
            f"{line} has a 'text' that does not begin with its 'prompt'. If it is what follows the"
            " prompt, call it 'continuation'."
        )
    return text[len(prompt) :]


def _text(fields: Mapping[str, Any], name: str, line: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise DataError(f"{line} needs a text as its {name!r}.")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise DataError(f"{line} has half a surrogate pair in its {name!r}; write it as UTF-8.")
    return value


def _identity(fields: Mapping[str, Any], line: str, fallback: Any) -> str:
    value = fields.get("id", fallback)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise DataError(f"{line} needs a text or a whole number as its 'id'.")
    return str(value)


def _line(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _hash(text: str) -> Any:
    return hashlib.sha256(text.encode())
