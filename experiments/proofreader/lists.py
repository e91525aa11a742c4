"""Proofread with word lists and a frozen language model, without any training.

Candidates come from a spelling dictionary, inflection tables and small closed sets: articles,
prepositions, commas, words that sound alike. The frozen base model accepts a candidate if the
log-likelihood ratio of the text with it to the text without it is high enough, over the edit and
the tokens to its right. This is what a trained proofreader has to beat.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import lemminflect
import torch
import torch.nn.functional as F  # noqa: N812
from examples import Edit
from mistakes import CHOICES, known_words
from model import Cache, Proofreader, _rotate
from reader import RIGHT, Reader
from scoring import annotator
from symspellpy import SymSpell, Verbosity
from torch import Tensor

from reviser.data.english import CONFUSED, FORMS, PREPOSITIONS, PRONOUNS
from reviser.data.words import like

INSERTED = ("a", "an", "the", "to", "of", "in", "for", "on", "is", "are", "it", "and", "that")
"""Words that may be missing before any other word."""
EXTRA = frozenset([*INSERTED, *PREPOSITIONS, "so", "then", "very", "be", "been", "was", "were"])
"""Words that may be one too many."""
SPELLINGS = 5
"""Candidates for a word that is not in the dictionary."""
FIRST_TOKEN = -3.0
"""The base must not find a candidate's first new token less likely than this, in nats."""
PER_WORD = 0.5
"""Candidates that the base compares in full, per word of the text."""


# -- candidates -------------------------------------------------------------------------------


@cache
def speller() -> SymSpell:
    """Return the dictionary of symspellpy."""
    found = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    path = files("symspellpy") / "frequency_dictionary_en_82_765.txt"
    found.load_dictionary(str(path), 0, 1)
    return found


@cache
def inflections(word: str, noun: bool) -> tuple[str, ...]:
    """Return the other forms of a noun or verb, in lower case."""
    upos = "NOUN" if noun else "VERB"
    found: dict[str, None] = {}
    for lemma in lemminflect.getLemma(word, upos, lemmatize_oov=False):
        found[lemma] = None
        for upos_forms in lemminflect.getAllInflections(lemma, upos).values():
            found |= dict.fromkeys(upos_forms)
    if word in ("am", "is", "are", "was", "were"):
        found |= dict.fromkeys(("am", "is", "are", "was", "were", "be", "been"))
    return tuple(form for form in found if form != word and form.isalpha())


def candidates(text: str) -> list[Edit]:
    """Return every edit that the lists allow."""
    tokens = [token for token in annotator()[0](text) if not token.is_space]
    found = {edit for n in range(len(tokens)) for edit in _of_word(text, tokens, n)}
    if text[-1:].isalnum():
        found.add(Edit(len(text), len(text), "."))
    return sorted(edit for edit in found if text[edit.start : edit.end] != edit.text)


def _of_word(text: str, tokens: Sequence[Any], n: int) -> Iterator[Edit]:
    """Yield the edits that replace or remove a word, or insert one before it."""
    token = tokens[n]
    word, lower = token.text, token.text.lower()
    start, end = token.idx, token.idx + len(word)
    for new in dict.fromkeys(_replacements(token, first=n == 0)):
        yield Edit(start, end, new)
    spaced = text[start - 1 : start] == " "
    if spaced and (lower in EXTRA or word == ","):
        yield Edit(start - 1, end, "")
    elif word == ",":
        yield Edit(start, end, "")
    if spaced and word[0].isalnum() and tokens[n - 1].text[-1].isalnum():
        yield Edit(start - 1, start - 1, ",")
        for new in INSERTED:
            yield Edit(start, start, new + " ")
    if n == 0 and word.isalpha():
        for new in ("The", "A", "It"):
            kept = word if token.tag_.startswith("NNP") or word == "I" else lower
            yield Edit(start, end, f"{new} {kept}")


def _replacements(token: Any, *, first: bool) -> Iterator[str]:
    """Yield words that may be meant by a word."""
    word, lower = token.text, token.text.lower()
    if not word.isalpha() and lower not in CONFUSED:
        return
    if word == "i" or (first and word[0].islower()):
        yield word[:1].upper() + word[1:]
    if lower not in known_words() and len(word) > 2 and (first or word[0].islower()):
        near = speller().lookup(lower, Verbosity.ALL, max_edit_distance=2)
        yield from (like(word, each.term) for each in near[:SPELLINGS])
    for table in (CONFUSED, CHOICES, FORMS, PRONOUNS):
        yield from (like(word, new) for new in table.get(lower, ()))
    yield from (like(word, new) for new in PREPOSITIONS.get(lower, ()))
    if lower in ("a", "an", "the"):
        yield from (like(word, new) for new in ("a", "an", "the"))
    if token.tag_[:2] in ("NN", "VB") or (lower in known_words() and token.tag_[:2] == "JJ"):
        for noun in (True, False):
            yield from (like(word, new) for new in inflections(lower, noun))


# -- the base model compares ------------------------------------------------------------------


class Lists:
    """A proofreader that needs no training; `threshold` is the lowest accepted ratio."""

    def __init__(self, reader: Reader, threshold: float = 0.0) -> None:
        self.reader, self.threshold = reader, threshold
        self.compared = cache(self._compared)

    def __call__(self, text: str) -> list[Edit]:
        """Return the accepted edits: the best ones that do not touch each other."""
        chosen: list[Edit] = []
        for ratio, edit in self.compared(text):
            if ratio < self.threshold:
                break
            if all(edit.end < other.start or other.end < edit.start for other in chosen):
                chosen.append(edit)
        return sorted(chosen)

    def _compared(self, text: str) -> list[tuple[float, Edit]]:
        """Return the candidates and their ratios, best first."""
        edits = candidates(text)
        limit = int(PER_WORD * len(text.split())) + 1
        found = ratios(self.reader, text, edits, limit=limit, first_token=FIRST_TOKEN)
        return sorted(((ratio, edits[n]) for n, ratio in found.items()), reverse=True)


@torch.no_grad()
def ratios(
    reader: Reader, text: str, edits: Sequence[Edit], *, limit: int, first_token: float
) -> dict[int, float]:
    """Return the log-likelihood ratios of the `limit` most promising edits, by their index.

    They equal those of `Reader.verify`, but a text is read only once. Each edit adds a branch: its
    tokens and those to its right, which see the text before the edit and nothing of other branches.
    An edit is promising if the base likes its first new token, which needs no branch.
    """
    model = reader.model
    old = reader._ids(text)
    output, past = _read(model, torch.tensor(old), torch.arange(len(old)), None, None)
    scores = (output @ model.table.T).log_softmax(-1)
    likelihoods = scores[torch.arange(len(old) - 1), torch.tensor(old[1:])].tolist()
    branches = []
    for n, edit in enumerate(edits):
        new = reader._ids(text[: edit.start] + edit.text + text[edit.end :])
        shortest = min(len(old), len(new))
        same = next((i for i in range(shortest) if old[i] != new[i]), shortest)
        tail = next((i for i in range(shortest - same) if old[-1 - i] != new[-1 - i]),
                    shortest - same)  # fmt: skip
        ends = [min(len(ids), len(ids) - tail + RIGHT) for ids in (old, new)]
        if same == shortest:  # the text ends here, or the edit changes nothing
            continue
        first = float(scores[same - 1, new[same]]) - likelihoods[same - 1]
        before = sum(likelihoods[same - 1 : ends[0] - 1])
        branches.append((first, n, same, new[same : ends[1]], before))
    best = sorted((each for each in branches if each[0] >= first_token), reverse=True)[:limit]
    if not best:
        return {}
    # One pass reads all branches; the mask keeps them apart.
    ids = torch.tensor([token for *_, tokens, _ in best for token in tokens])
    owner = torch.tensor([row for row, (*_, tokens, _) in enumerate(best) for _ in tokens])
    places = torch.tensor([same + i for _, _, same, tokens, _ in best for i in range(len(tokens))])
    cut = torch.tensor([same for _, _, same, _, _ in best])[owner]
    trunk = torch.arange(len(old)) < cut[:, None]
    branch = (owner == owner[:, None]) & (places <= places[:, None])
    output, _ = _read(model, ids, places, torch.cat([trunk, branch], 1), past)
    after = (output @ model.table.T).log_softmax(-1)
    found = {}
    at = 0
    for _, n, same, tokens, before in best:
        rest = after[torch.arange(at, at + len(tokens) - 1), torch.tensor(tokens[1:]).long()]
        own = float(scores[same - 1, tokens[0]]) + float(rest.sum())
        found[n] = own - before
        at += len(tokens)
    return found


def _read(
    model: Proofreader, ids: Tensor, places: Tensor, mask: Tensor | None, past: Cache | None
) -> tuple[Tensor, Cache]:
    """Return the base model's output for ids at any places, and the keys and values so far.

    `Proofreader._block` reads ids in order. This does the same for branches, with their own mask.
    """
    hidden = F.embedding(ids, model.inputs)
    if int(places.max()) >= len(model.rotations[0]):
        model._rotation(0, int(places.max()) + 1)
    cos, sin = (part[places] for part in model.rotations)
    grown: Cache = []
    for n, layer in enumerate(model.base):
        x = F.rms_norm(hidden, (model.width,), layer["before"], model.eps)
        sizes = [model.heads * model.head, model.kv_heads * model.head, model.kv_heads * model.head]
        q, k, v = (
            part.view(len(ids), -1, model.head).transpose(0, 1)
            for part in (x @ layer["qkv"].T).split(sizes, -1)
        )
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if past:
            k, v = torch.cat([past[n][0], k], 1), torch.cat([past[n][1], v], 1)
        grown.append((k, v))
        times = model.heads // model.kv_heads
        k, v = (part.repeat_interleave(times, 0) for part in (k, v))
        x = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
        hidden = hidden + x.transpose(0, 1).reshape(len(ids), -1) @ layer["o"].T
        x = F.rms_norm(hidden, (model.width,), layer["after"], model.eps)
        gate, up = (x @ layer["gate_up"].T).chunk(2, -1)
        hidden = hidden + (F.silu(gate) * up) @ layer["down"].T
    return F.rms_norm(hidden, (model.width,), model.norm, model.eps), grown
