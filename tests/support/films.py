"""Films for the tests of the player: random ones in every script, hostile ones, long ones."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec, TextEdit
from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig
from reviser.model import Reviser
from reviser.models.editing import Editing
from reviser.player.film import Film, FilmStep, Replayer
from reviser.trajectories.alignment import revision
from reviser.trajectories.policy import Address
from reviser.writing.rollout import Rollout, Statistics
from support import small_tokenizers
from support.random_engine import RandomEngine

MULTIBYTE = "👩\u200d🚀 e\u0301 שלום, עולם! 你好 👍🏽 مرحبا"
"""Emoji of several characters, a combining mark, two scripts from right to left, Chinese."""
HOSTILE = (
    "</script><script>window.hit=1</script><img src=x onerror=window.hit=1> &lt;b&gt; ${1} {{data}}"
    "<!-- ]]> \u2028\u2029\x00\x07\r\n\t\"'`\\ \u202eturned \ufeff{}"
)


def replayer(*, rows: int = 3, search: bool = False) -> tuple[Reviser, Replayer]:
    """Return a model with random actions of every operator, and the maker of its films."""
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=OPERATORS, max_move=8, marks=search, search=search
    )
    codec = Codec(tokenizer)
    engine = RandomEngine(vocab, rows=rows)
    model = Reviser(engine, codec, provenance={"model": "x"}, editing=Editing())
    return model, Replayer(vocab, codec)


def revised(
    maker: Replayer, draft: str, text: str, *, instruction: str = "", address: Address = "search"
) -> Rollout:
    """Return a revision as a perfect model would make it."""
    before, after, asked = (maker.codec.encode(each) for each in (draft, text, instruction))
    trajectory = revision(maker.vocab, before, after, instruction=asked, address=address)
    chosen = len(trajectory.restoration) - len(trajectory.no_loss)
    return Rollout(
        prompt=draft,
        text=text,
        trajectory=trajectory,
        logprobs=(-1.0,) * chosen,
        stop_reason="stop",
        statistics=Statistics(
            actions=chosen, edits=1, moves=1, tokens_before=len(before), tokens_after=len(after)
        ),
        locked=(),
        config=DecodeConfig(temperature=0.0),
        provenance={"model": "x"},
    )


def texts(maker: Replayer, rollout: Rollout) -> Iterator[str]:
    """Yield the text of the executor's canvas before the first step and after each."""
    trajectory = rollout.trajectory
    canvas = Canvas.replay(maker.vocab, trajectory.prefix)
    yield maker.codec.decode(canvas.tokens())
    for action in trajectory.restoration:
        canvas.apply(action)
        yield maker.codec.decode(canvas.tokens())


def hostile() -> Film:
    """Return a film whose every text is an attack."""
    edit = TextEdit(0, "", HOSTILE, len(HOSTILE), "utf16")
    step = FilmStep(edit=edit, action=HOSTILE, logprob=float("nan"))
    gone = FilmStep(edit=TextEdit(0, HOSTILE, "", 0, "utf16"), action="delete", logprob=-1.0)
    return Film(
        name=HOSTILE, text=HOSTILE, cursor=0, steps=(step, gone), final=HOSTILE,
        facts=((HOSTILE, HOSTILE),),
    )  # fmt: skip


def long(actions: int, seed: int = 0) -> Film:
    """Return a film of mostly inserts, some moves and deletes, all over a long text."""
    _, maker = replayer()
    rng, vocab = Random(seed), maker.vocab
    words = [maker.codec.encode(word) for word in (" the", " cat", "é", " 你好", " 😀", ".", "\n")]
    canvas, ids = Canvas(vocab), []
    assert vocab.delete is not None
    while len(ids) < actions - 1:
        if rng.random() < 0.75:
            batch = list(rng.choice(words))
        elif canvas.cursor and rng.random() < 0.1:
            batch = [vocab.delete]
        else:
            deltas = [d for d in vocab.deltas if 0 <= canvas.cursor + d <= len(canvas)]
            batch = [vocab.move_id(rng.choice(deltas))] if deltas else []
        for action in batch:
            canvas.apply(action)
        ids += batch
    ids = [*ids[: actions - 1]]
    return maker.film(Trajectory(restoration=(*ids, vocab.stop)), name="long")
