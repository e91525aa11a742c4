"""Check `misspellings.txt`, and write `typos.txt`: misspellings that frequent patterns make.

The patterns are applied to frequent words: a letter doubled or not, two letters swapped, one left
out, "ie" for "ei", "-ance" for "-ence" and so on. A misspelling is kept if it is no word, if no
other word of some frequency is one letter away, and if it does not stand in clean text. The words
and their frequencies are the list of symspellpy (MIT), which comes from Google Books and SCOWL.

Usage: python -m experiments.proofreader.misspellings WORDS.txt CLEAN.txt...
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from reviser.proofread.rules.tables import confusions, dialects, entries

VARIANTS = {"cancelation", "programing"}
"""Spellings that some dictionaries have, and the list of words has not."""
FOLDER = Path(__file__).parents[2] / "src/reviser/proofread/rules"
FREQUENT, MOST_FREQUENT = 12000, 2200
"""Ranks up to which words have misspellings by pattern, and by any letter that is wrong."""
LEAST_RATIO = 300
"""How much more frequent a word is than the others that are one letter away."""
SWAPS = (
    ("ie", "ei"), ("ei", "ie"), ("ance", "ence"), ("ence", "ance"), ("ant", "ent"), ("ent", "ant"),
    ("ible", "able"), ("able", "ible"), ("able", "eable"), ("tion", "sion"), ("tion", "ton"),
    ("sion", "tion"), ("cian", "tian"), ("ary", "ery"), ("ery", "ary"), ("or", "er"), ("er", "or"),
    ("ar", "er"), ("al", "el"), ("el", "al"), ("sc", "s"), ("sc", "c"), ("ph", "f"), ("y", "i"),
    ("i", "y"), ("ce", "se"), ("se", "ce"), ("ci", "si"), ("cc", "c"), ("qu", "q"), ("ea", "e"),
    ("ou", "o"), ("au", "a"), ("ely", "ly"), ("ement", "ment"), ("ful", "full"), ("ally", "aly"),
    ("ally", "ly"), ("e", "i"), ("i", "e"), ("e", "a"), ("a", "e"), ("ing", "eing"), ("ck", "k"),
    ("wh", "w"), ("th", "ht"), ("gh", "hg"), ("tch", "ch"), ("mn", "m"), ("ies", "ys"),
    ("im", "in"), ("ue", "u"), ("o", "a"), ("u", "o"), ("ous", "us"), ("ious", "ous"), ("s", "z"),
)  # fmt: skip
LATE = {"e", "i", "a", "o", "u", "y", "s"}
"""Single letters are swapped in the second half of a word only."""


def misspellings(word: str, *, most: bool) -> Iterator[str]:
    """Yield how a word may be misspelt."""
    for n in range(1, len(word) - 1):
        if word[n] == word[n + 1]:
            yield word[:n] + word[n + 1 :]
        elif word[n] in "bcdfglmnprst" and word[n - 1] in "aeiou" and word[n + 1] in "aeiouly":
            yield word[:n] + word[n] + word[n:]
        if most:
            yield word[:n] + word[n + 1] + word[n] + word[n + 2 :]
            yield word[:n] + word[n + 1 :]
    for old, new in SWAPS:
        for match in re.finditer(old, word):
            is_late = len(word) // 2 <= match.start() < len(word) - 1
            if match.start() and (old not in LATE or is_late):
                yield word[: match.start()] + new + word[match.end() :]


def without_one(word: str) -> set[str]:
    """Return a word, and the word without each of its letters."""
    return {word, *(word[:n] + word[n + 1 :] for n in range(len(word)))}


def main() -> None:
    """Write the list."""
    words, *clean = map(Path, sys.argv[1:])
    counts = {}
    for line in words.read_text(encoding="utf-8-sig").splitlines():
        word, count = line.split()
        counts[word] = int(count)
    seen: Counter[str] = Counter()
    lower: Counter[str] = Counter()
    for path in clean:
        found = re.findall(r"[A-Za-z]+", path.read_text(encoding="utf-8"))
        lower.update(found)
        seen.update(map(str.lower, found))
    near = defaultdict(set)
    for word in counts:
        for short in without_one(word):
            near[short].add(word)
    listed = {}
    for line in (FOLDER / "misspellings.txt").read_text(encoding="utf-8").splitlines():
        if line[0] != "#":
            right, _, wrong = line.partition(":")
            for each in wrong.split():
                listed[each] = right
                if each in counts or seen[each] > 1 or not each.isalpha():
                    print("check:", each, "->", right, counts.get(each), seen[each])
    left_to_others = VARIANTS | confusions().keys() | entries().keys() | dialects().keys()
    made = defaultdict(set)
    ranked = [w for w in sorted(counts, key=counts.__getitem__, reverse=True) if w.isalpha()]
    for rank, word in enumerate(ranked[:FREQUENT]):
        if len(word) < 6 or lower[word] < max(5, 0.6 * seen[word]):  # short words, and names
            continue
        for wrong in misspellings(word, most=rank < MOST_FREQUENT):
            if (
                wrong in counts
                or wrong in listed
                or wrong in left_to_others
                or seen[wrong] > seen[word] // 1000
            ):
                continue
            rivals = set().union(*(near[short] for short in without_one(wrong))) - {word}
            if all(counts[each] * LEAST_RATIO < counts[word] for each in rivals):
                made[wrong].add(word)
    rows = defaultdict(list)
    for wrong, rights in made.items():
        if len(rights) == 1:
            rows[min(rights)].append(wrong)
    lines = [f"{right}: {' '.join(sorted(wrong))}" for right, wrong in sorted(rows.items())]
    head = (
        "# Misspellings by frequent patterns; written by experiments/proofreader/misspellings.py."
    )
    (FOLDER / "typos.txt").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    print(len(listed), "listed,", sum(map(len, rows.values())), "by patterns")


if __name__ == "__main__":
    main()
