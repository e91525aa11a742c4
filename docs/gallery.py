"""Writes gallery.html: the ten trajectories that the paper prints, to be watched.

python docs/gallery.py > docs/gallery.html
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.core.trajectory import Trajectory
from reviser.player.film import Cutter, Film
from reviser.player.page import to_html

PRINTED = Path(__file__).parent.parent / "tests" / "fixtures" / "paper.json"
TITLE = "The paper's ten trajectories"
NOTE = (
    "What the paper's two models wrote, as its appendix prints it, action by action. The prompt is"
    " grey; the rest is the model's. Press play, or step with the arrow keys."
)


def films() -> list[Film]:
    """The printed trajectories, each token a made-up id, since the print gives their text only."""
    printed = json.loads(PRINTED.read_text("utf-8"))["printed"]
    tokens = list(dict.fromkeys(token for each in printed for token in _tokens(each)))
    ids = {token: n for n, token in enumerate(tokens)}
    vocab = ActionVocab.paper()
    cutter = Cutter(vocab, _codec(tokens))
    return [_film(each, ids, vocab, cutter) for each in printed]


def _film(printed: dict[str, Any], ids: dict[str, int], vocab: ActionVocab, cutter: Cutter) -> Film:
    actions = []
    for kind, *argument in printed["actions"]:
        number = ids[argument[0]] if kind == "insert" else argument[0] if argument else 0
        actions += vocab.spell(Action(Kind[kind.upper()], number))
    trajectory = Trajectory(
        prefix=tuple(ids[token] for token in printed["prefix"]), restoration=tuple(actions)
    )
    moves = sum(kind == "move" for kind, *_ in printed["actions"])
    facts = [
        ("Model", f"{printed['size']} parameters"),
        ("Prompt", f"{len(printed['prefix'])} tokens"),
        ("Actions", f"{len(actions)}, of which {moves} are moves"),
        ("Ended by", printed["actions"][-1][0]),
    ]
    return cutter.film(trajectory, name=printed["name"], facts=facts)


def _tokens(printed: dict[str, Any]) -> list[str]:
    inserted = [argument[0] for kind, *argument in printed["actions"] if kind == "insert"]
    return [*printed["prefix"], *inserted]


def _codec(tokens: list[str]) -> Codec:
    """One that knows these tokens, byte for byte."""
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces = [cut.pre_tokenize_str(token)[0][0] for token in tokens]
    tokenizer = Tokenizer(models.BPE(vocab={p: n for n, p in enumerate(pieces)}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return Codec(tokenizer)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(to_html(films(), title=TITLE, note=NOTE))
