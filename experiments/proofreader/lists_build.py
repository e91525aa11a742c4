"""Write the data files of `reviser.proofread.lists`, and print what is in them.

    python lists_build.py DATA

`DATA` has `openstax` (CC BY 4.0) and `novels100` (public domain by date), which are counted. The
words and more pairs come from symspellpy (MIT), the forms from lemminflect (MIT). The tables
`confused.txt` and `families.txt` are written by hand. This needs 80 CPU seconds and 3 GB.
"""

import gzip
import lzma
import re
import sys
import tarfile
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from reviser.proofread import ngrams
from reviser.proofread.ngrams import MARKS, OWN, PAIR_SHIFT, SCALE, SHIFT, UNSEEN, VOCABULARY

OUTPUT = Path(ngrams.__file__).parent / "data"
WEIGHT = 3  # of the textbooks: they are modern, and the novels are not
FEWEST_ROWS, LEAST_ROWS, FEWEST_PAIRS, LEAST_PAIRS, FORMS = 24, 0.6, 15, 1.0, 60
"""What is saved: rows of three classes and pairs of words with this count, if they differ by so
many nats from what is saved for their parts; and the forms of words with this frequency."""
PLAIN = re.compile(r"[a-z]+(?:'[a-z]+)?")
NAME, LOW = "\0name", (1 << SHIFT) - 1
ENDINGS = (
    "tion sion ation ition ment ness ful fully less ly ally ily ity ence ance ency ancy ent ant"
    " ently antly al ial ic ical ically ive ively er or able ible ably ous ously ist ism y ed ing"
    " ish en ship th ual ually ary ory e ate ated ating ized ize"
)
NO_FORMS = frozenset(("be", "have", "do", "will", "can", "shall", "may", "must"))


def read(data: Path) -> tuple[list[str], dict[int, np.ndarray]]:
    """Return all words, and the text of each weight as numbers of words."""
    with tarfile.open(data / "openstax/openstax_prose_ccby.tar.xz") as tar:
        modern = [tar.extractfile(one).read().decode() for one in tar.getmembers() if one.isfile()]
    novels = lzma.decompress((data / "novels100/novels_prose.txt.xz").read_bytes()).decode()
    numbers, found = dict[str, int](), dict[int, np.ndarray]()
    for weight, text in ((WEIGHT, "\n".join(modern)), (1, novels)):
        row = array("i")
        for line in text.split("\n"):
            words = [NAME if token.is_name else token.lower for token in ngrams.tokenize(line)]
            row.extend([numbers.setdefault(word, len(numbers)) for word in [".", *words]])
        found[weight] = np.frombuffer(row, np.int32)
    return list(numbers), found


def symspell(name: str) -> Iterator[list[str]]:
    text = (files("symspellpy") / f"frequency_{name}.txt").read_text("utf-8-sig")
    return (line.split() for line in text.splitlines())


def frequencies(words: list[str], counts: dict[int, np.ndarray]) -> dict[str, float]:
    """Return how frequent each known word is."""
    known = {w: int(n) / 5e5 for w, n in symspell("dictionary_en_82_765") if PLAIN.fullmatch(w)}
    found = {w: n for w, n in known.items() if len(w) > 1 or w in "ai"}
    for word, modern, old in zip(words, counts[WEIGHT], counts[1], strict=True):
        is_often = modern >= 5 or old >= (20 if "'" in word else 40)
        if word in found or (PLAIN.fullmatch(word) and len(word) > 1 and is_often):
            found[word] = found.get(word, 0) + int(WEIGHT * modern + old)
    return found


def inflected(frequency: dict[str, float]) -> Iterator[str]:
    """Yield the families of verbs, nouns and adjectives, one a line."""
    table = Path(find_spec("lemminflect").origin).parent / "resources/infl_lu.csv.gz"
    adverbs, rows = {"well"}, []
    for line in gzip.decompress(table.read_bytes()).decode().splitlines():
        lemma, kind, *forms = line.split(",")
        options = [[f for f in some.split("/") if f in frequency] for some in forms]
        best = [max(some, key=frequency.__getitem__, default="-") for some in options]
        if lemma in frequency and frequency[lemma] > FORMS:
            rows.append((lemma, kind, [*best, "-", "-", "-"], forms))
            adverbs |= {lemma} if kind == "adv" else set()
    for lemma, kind, (one, two, three, four, *_), forms in rows:
        if kind == "verb" and lemma not in NO_FORMS:
            yield f"v {lemma} {four} {one} {two if any(forms[1:2]) else one} {three}"
        elif kind == "noun":
            plurals = [p for p in forms[0].split("/") if p != lemma and p in frequency]
            yield " ".join(["n", lemma, *sorted(plurals, key=frequency.get)[-1:]])
        elif kind == "adj":
            ends = (lemma + "ly", lemma[:-1] + "ily", lemma[:-1] + "y", lemma + "ally")
            usual = (True, lemma[-1] == "y", lemma[-2:] == "le", lemma[-2:] == "ic")
            found = [w for w, ok in zip(ends, usual, strict=True) if ok and w in adverbs]
            yield f"a {lemma} {one} {two} {'well' if lemma == 'good' else (found or ['-'])[0]}"


def derived(words: list[str], lines: list[str]) -> list[str]:
    """Return families of words with one stem, from the endings and from the table."""
    formed = {word for line in lines for word in line.split()[1:]}
    table: dict[str, list[str]] = defaultdict(list)
    for word in words[:14_000]:
        if len(word) > 4 and word in formed:
            ends = [e for e in ENDINGS.split() if word.endswith(e) and len(word) - len(e) > 3]
            end = max(ends, key=len, default="")
            table[word.removesuffix(end).rstrip("eiy")].append(word)
    hand = (OUTPUT / "families.txt").read_text(encoding="utf-8").splitlines()
    return [
        f"d {family}"
        for family in [*map(" ".join, table.values()), *hand]
        if 1 <= family.count(" ") <= 8
    ]


def save(name: str, data: bytes) -> None:
    size = (OUTPUT / name).write_bytes(zlib.compress(data, 9))
    print(f"{name:12} {len(data):>9,} bytes, {size:>8,} compressed")


def counted(rows: dict[int, np.ndarray], key: object, ids: np.ndarray) -> tuple:
    """Return how often each key of some numbers is in the text."""
    found = [(weight, np.unique(key(ids[row]), return_counts=True)) for weight, row in rows.items()]
    keys, index = np.unique(np.concatenate([keys for _, (keys, _) in found]), return_inverse=True)
    return keys, np.bincount(index, np.concatenate([n * weight for weight, (_, n) in found]))


def costs(nats: np.ndarray) -> np.ndarray:
    return np.clip(np.round(-nats * SCALE), -127, 127).astype(int)


def count(words: list[str], text: list[str], rows: dict[int, np.ndarray]) -> bytes:
    """Return the tables of classes, rows of three classes, and pairs of words."""
    own = {word: n for n, word in enumerate(words[:OWN])}
    names = ["name" if w == NAME else ngrams.class_name(w) for w in text]
    others = sorted({name for w, name in zip(text, names, strict=True) if w not in own})
    number = {name: OWN + n for n, name in enumerate(others)}
    classes = np.array([own.get(w, number.get(c, 0)) for w, c in zip(text, names, strict=True)])
    rank = {word: n for n, word in enumerate(words[:VOCABULARY])}
    ranks, size = np.array([rank.get(w, -1) for w in text]), OWN + len(others)
    total = sum(w * np.bincount(classes[row], minlength=size) for w, row in rows.items())
    keys, n = counted(rows, lambda c: c[:-1] << SHIFT | c[1:], classes)
    two = np.log((total + 0.5) / total.sum())[None, :] - np.ones((size, 1))
    some = n >= 4
    two[keys[some] >> SHIFT, keys[some] & LOW] = np.log(n[some] / total[keys[some] >> SHIFT])
    both = dict(zip(keys.tolist(), n.tolist(), strict=True))
    keys, n = counted(rows, lambda c: (c[:-2] << SHIFT | c[1:-1]) << SHIFT | c[2:], classes)
    usual = two[keys >> SHIFT & LOW, keys & LOW] - UNSEEN / SCALE
    three = np.log(n / np.array([both[key] for key in (keys >> SHIFT).tolist()]))
    kept = (n >= FEWEST_ROWS) & (abs(three - usual) > LEAST_ROWS)
    of = np.array([own.get(w, number.get(ngrams.class_name(w), 0)) for w in words[:VOCABULARY]])
    single = np.ones(VOCABULARY)
    for weight, row in rows.items():
        single += weight * np.bincount(ranks[row] + 1, minlength=VOCABULARY + 1)[1:]
    emission = np.where(np.arange(VOCABULARY) < OWN, 0, np.log(single / total[of]))
    expected = (two[of][:, of] + emission).astype(np.float32)
    pairs = ngrams.pack(*pairs_of(rows, ranks, rank, single, expected))
    head, tables = (
        " ".join(others).encode(),
        ngrams.pack(keys[kept].tolist(), costs(three[kept]).tolist()),
    )
    sizes = np.array([len(head), len(tables) // 5, len(pairs) // 5], np.uint32).tobytes()
    print(f"{size} classes, {len(tables) // 5:,} rows of three, {len(pairs) // 5:,} pairs")
    dense = [costs(some).clip(0).astype(np.uint8).tobytes() for some in (emission, two)]
    return b"".join([sizes, head, *dense, tables, pairs])


def pairs_of(
    rows: dict, ranks: np.ndarray, rank: dict, single: np.ndarray, usual: np.ndarray
) -> tuple:
    """Return pairs of words that are more or less frequent than their classes, and by how much."""
    both = lambda r: (r[:-1] << PAIR_SHIFT | r[1:])[(r[:-1] >= 0) & (r[1:] >= 0)]  # noqa: E731
    keys, n = counted(rows, both, ranks)
    found = dict(zip(keys.tolist(), n.tolist(), strict=True))
    for a, b, c in symspell("bigramdictionary_en_243_342"):
        if a in rank and b in rank:
            key = rank[a] << PAIR_SHIFT | rank[b]
            found[key] = max(found.get(key, 0), min(int(c) / 1e7, 1500))
    keys, n = np.array(list(found)), np.array(list(found.values()))
    one, other = keys >> PAIR_SHIFT, keys & (1 << PAIR_SHIFT) - 1
    gains = np.log(n / single[one]) - usual[one, other]
    kept = (n >= FEWEST_PAIRS) & (abs(gains) > LEAST_PAIRS) & ((one >= OWN) | (other >= OWN))
    table = dict(zip(keys[kept].tolist(), costs(-gains[kept]).tolist(), strict=True))
    expected = np.exp(usual) * single[:, None]
    expected[150:, 150:] = expected[:OWN, :OWN] = 0  # rare words may be apart by chance
    for a, b in np.argwhere(expected >= 12).tolist():
        key, wanted = a << PAIR_SHIFT | b, float(expected[a, b])
        if found.get(key, 0) < min(FEWEST_PAIRS, wanted / 4):
            table[key] = max(-127, round(SCALE * np.log((found.get(key, 0) + 0.7) / wanted)))
    return sorted(table), [table[key] for key in sorted(table)]


if __name__ == "__main__":
    text, rows = read(Path(sys.argv[1]))
    frequency = frequencies(text, {w: np.bincount(r, minlength=len(text)) for w, r in rows.items()})
    words = [*MARKS[:7], *sorted(frequency, key=frequency.get, reverse=True)]
    save("words.bin", "\n".join(words).encode())
    forms = [*(verbs := [*inflected(frequency)]), *derived(words, verbs)]
    save("forms.bin", "\n".join(forms).encode())
    print({kind: sum(line[0] == kind for line in forms) for kind in "vnad"})
    save("ngrams.bin", count(words, text, rows))
