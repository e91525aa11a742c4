"""What is evaluated: texts of any system, and the prompts that they continue.

Knows files and tokenizers, nothing of models or measures. A system of one's own comes as a file of
rollouts, any other as JSON lines; from here on both are samples.
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
from reviser.writing.model import Rollout

FORMAT = 1
"""Of the record of an evaluation; a report refuses another."""
REFERENCE = "reference"
"""What the documents themselves are called among the systems."""
MADE = "made.json"
"""Beside files of prompts: what they were chosen from and how."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The beginning of a document, and how the document goes on."""

    id: str
    """Of the document: equal for equal ones, whichever file or seed they come from."""
    prompt: str
    reference: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one system wrote behind one prompt."""

    system: str
    id: str
    """Of the prompt; samples that share it are not independent."""
    prompt: str
    continuation: str
    """What follows the prompt, with the space between them if there is one."""
    reference: str | None = None
    rollout: Rollout | None = None

    @property
    def text(self) -> str:
        """Prompt and continuation."""
        return self.prompt + self.continuation


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Which documents are continued, and from where; the defaults are the paper's."""

    prefix_tokens: int = 35
    """Of a document, that a system is given."""
    total_tokens: int = 180
    """Where the reference is cut, and how far a system is to write; prompt included."""
    min_tokens: int = 144
    """Shorter documents are not used."""
    max_tokens: int = 216
    """Nor are longer ones."""
    prompts: int = 1000
    """For each seed."""
    seeds: tuple[int, ...] = (123, 124, 125)
    """Each draws prompts of its own, and has random numbers of its own for the rollouts."""

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
    """For each seed the prompts it draws, and how many documents were left out for what reason.

    A document's place in the draw is a hash of seed and text, so neither their order nor another
    document changes who is drawn. Repeated documents count once.
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
                place = int.from_bytes(_hash(f"{seed} {prompt.id}").digest())
                entry = (-place, prompt.id, prompt)  # a heap gives its least first
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
    """Prompt and reference, or why there is none."""
    tokens = codec.encode(document)
    if not protocol.min_tokens <= len(tokens) <= protocol.max_tokens:
        return f"not of {protocol.min_tokens} to {protocol.max_tokens} tokens"
    prompt = codec.decode(tokens[: protocol.prefix_tokens])
    # Some runs of tokens are the tokens of no text: cut within a character, or behind white space
    # that is read in another way at the end of a text.
    if not document.startswith(prompt) or codec.encode(prompt) != tokens[: protocol.prefix_tokens]:
        return "no whole prefix"
    whole = document
    if len(tokens) > protocol.total_tokens:
        ends = range(protocol.total_tokens, protocol.prefix_tokens - 1, -1)
        texts = (codec.decode(tokens[:end]) for end in ends)
        whole = next(text for text in texts if document.startswith(text))
    identity = _hash(document).hexdigest()[:16]
    return Prompt(id=identity, prompt=prompt, reference=whole[len(prompt) :])


def about_prompts(
    protocol: Protocol, sources: Sequence[str], codec: Codec, content: Sequence[Any] = ()
) -> dict[str, Any]:
    """What a file of prompts depends on, as JSON holds it; `content` is what the sources hold."""
    told = {
        "protocol": asdict(protocol),
        "data": ", ".join(Path(source).name for source in sources),
        "content": list(content),
        "tokenizer": codec.fingerprint,
    }
    found: dict[str, Any] = json.loads(json.dumps(told, default=str))
    return found


def read_about(prompts: Iterable[Path]) -> dict[str, Any]:
    """Protocol and data of files of prompts, for a record, if one note says it of all of them."""
    places = {(path if path.is_dir() else path.parent) / MADE for path in prompts}
    if len(places) != 1 or not (place := places.pop()).is_file():
        return {}
    try:
        told = json.loads(place.read_text("utf-8"))
        return {name: told[name] for name in ("protocol", "data")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"Cannot read {str(place)!r}: {error!r}.") from error


def write_prompts(path: Path, prompts: Iterable[Prompt]) -> None:
    """A file that `reviser generate --input` reads, with the references beside the prompts."""
    write_whole(path, "".join(_line(asdict(prompt)) for prompt in prompts))


def read_prompts(path: Path) -> list[Prompt]:
    """What `write_prompts` wrote."""
    prompts: dict[str, Prompt] = {}
    for place, fields in read_objects(path):
        prompt = Prompt(
            id=_identity(fields, place, None),
            prompt=_text(fields, "prompt", place),
            reference=_text(fields, "reference", place),
        )
        if prompts.setdefault(prompt.id, prompt) != prompt:
            raise DataError(f"{place} has the id {prompt.id!r} of another prompt.")
    return list(prompts.values())


def read_systems(given: Iterable[str], prompts: Iterable[Path] = ()) -> dict[str, list[Sample]]:
    """The samples of each system: `given` are NAME=PATH, or a path whose name is the system's.

    Paths are files or folders of them; so are `prompts`, which add the references.
    """
    references = [
        prompt for path in prompts for file in _files(path) for prompt in read_prompts(file)
    ]
    systems: dict[str, dict[Path, list[Sample]]] = {}
    for name, place in named(given):
        for file in _files(Path(place)):
            files = systems.setdefault(name, {})
            if file in files:
                raise DataError(f"{str(file)!r} is given twice for {name!r}.")
            files[file] = read_samples(file, system=name, prompts=references)
    return {name: [s for some in files.values() for s in some] for name, files in systems.items()}


def named(given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The name and the path of each NAME=PATH; of a path alone, its last part is the name."""
    for words in given:
        name, equals, place = words.partition("=")
        name, place = (name, place) if equals else (Path(words).stem, words)
        if not name or not place:
            raise DataError(f"Give NAME=PATH; got {words!r}.")
        yield name, place


def _files(path: Path) -> list[Path]:
    """A file itself, or the files of JSON lines in a folder."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"There are no .jsonl files in {str(path)!r}.")
    return files


def read_samples(
    path: Path, *, system: str | None = None, prompts: Iterable[Prompt] = ()
) -> list[Sample]:
    """The samples of a file of rollouts, or of JSON lines that any other system wrote.

    Such a line has a `prompt` and either the `text`, which begins with it, or the `continuation`
    alone; an `id` of the prompt (otherwise the number of the line) and a `reference` if wanted.
    Lines with one id are several samples of one prompt. `system` goes before that of the lines,
    and `prompts` adds references by id.
    """
    references = {prompt.id: prompt for prompt in prompts}
    named = system or path.stem
    samples = [
        _sample(fields, place, named, system, references) for place, fields in read_objects(path)
    ]
    if not samples:
        raise DataError(f"There are no samples in {str(path)!r}.")
    return samples


def _sample(
    fields: dict[str, Any],
    place: str,
    fallback: str,
    system: str | None,
    references: Mapping[str, Prompt],
) -> Sample:
    if "error" in fields:
        raise DataError(
            f"{place} holds no text but an error ({fields['error']}). Write it anew, or take the"
            " line out for every system that is compared."
        )
    rollout = _rollout(fields, place)
    prompt, reference = _text(fields, "prompt", place), fields.get("reference")
    identity = _identity(fields, place, fields.get("line"))
    if identity in references:
        if references[identity].prompt != prompt:
            raise DataError(f"{place} has another prompt than prompt {identity!r} is.")
        reference = references[identity].reference
    elif references:
        raise DataError(f"{place} continues prompt {identity!r}, which is not among the prompts.")
    named = system or fields.get("system", fallback)
    if not isinstance(named, str):
        raise DataError(f"{place} has the system {named!r}; it must be a text.")
    if not isinstance(reference, str | None):
        raise DataError(f"{place} has a 'reference' that is no text.")
    return Sample(
        system=named,
        id=identity,
        prompt=prompt,
        continuation=_continuation(fields, prompt, place),
        reference=reference,
        rollout=rollout,
    )


def _rollout(fields: dict[str, Any], place: str) -> Rollout | None:
    """The rollout that a line is, as `reviser generate` writes it, or has, as we do."""
    found = fields if "trajectory" in fields else fields.get("rollout")
    if found is None:
        return None
    try:
        return Rollout.from_json(json.dumps(found))
    except TrajectoryError as error:
        raise DataError(f"{place}: {error}") from error


def _continuation(fields: dict[str, Any], prompt: str, place: str) -> str:
    if ("text" in fields) == ("continuation" in fields):
        raise DataError(f"{place} must have either a 'text' or a 'continuation'.")
    if "continuation" in fields:
        return _text(fields, "continuation", place)
    text = _text(fields, "text", place)
    if not text.startswith(prompt):
        raise DataError(
            f"{place} has a 'text' that does not begin with its 'prompt'. If it is what follows the"
            " prompt, call it 'continuation'."
        )
    return text[len(prompt) :]


def _text(fields: Mapping[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise DataError(f"{place} needs a text as its {name!r}.")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise DataError(f"{place} has half a surrogate pair in its {name!r}; write it as UTF-8.")
    return value


def _identity(fields: Mapping[str, Any], place: str, fallback: Any) -> str:
    value = fields.get("id", fallback)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise DataError(f"{place} needs a text or a whole number as its 'id'.")
    return str(value)


def _line(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _hash(text: str) -> Any:
    return hashlib.sha256(text.encode())
