"""The four pages of the documentation that play rollouts, built with the site.

`mkdocs.yml` names this module as a hook, so `mkdocs build` adds the pages to the site:

- `rollouts.html`: eleven stories that the shipped model wrote;
- `edits.html`: ten drafts that the story editor revised;
- `gallery.html`: the ten trajectories that the paper prints;
- `maze.html`: mazes, by the model that edits and one that writes left to right.

Each page contains the player and needs no other file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from experiments.solve import watch
from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.core.trajectory import Trajectory
from reviser.player.film import Film, Replayer
from reviser.player.page import to_html
from reviser.writing.rollout import Rollout

ROOT = Path(__file__).resolve().parents[1]
PRINTED = ROOT / "tests" / "fixtures" / "paper.json"
STORIES = (
    "Held-out prompts, continued by models/stories-revise (7.2 million parameters). The first story"
    " was picked by hand, at temperature 0.7. The other ten were drawn by seed 7 from 200 such"
    " prompts. The prompt is grey. The model writes a story, leaves something out, goes back and"
    " writes that last."
)
DRAFTS = (
    "Ten held-out pieces with mistakes, revised by the story editor of the results page. They were"
    " drawn by seed 7 from those that need a change, not picked by hand. The editor reads each"
    " draft first and can edit only words that it found likely to be wrong. It searches for such a"
    " word, changes it and continues, or stops. It leaves six or seven of ten mistakes."
)
PAPER = (
    "The texts that the paper's two models wrote, as printed in its appendix, action by action. The"
    " prompt is grey; the rest is the model's. Press play, or step with the arrow keys."
)
MAZES = (
    "Both models have 149,952 weights and were trained on 9.0 million tokens of the same mazes."
    " Eight mazes are few: the page of results counts 500."
)


def pages() -> dict[str, str]:
    """Return the four pages by file name."""
    stories = ROOT / "models" / "stories-revise"
    codec = Codec.load(stories)  # of the editor, too
    replayer = Replayer(ActionVocab.load(stories), codec)
    rollouts = ROOT / "experiments" / "stories" / "results"
    edits = ROOT / "experiments" / "revise" / "results"
    return {
        "rollouts.html": to_html(
            [
                *films(rollouts / "picked.jsonl", replayer, "Picked story"),
                *films(rollouts / "rollouts.jsonl", replayer, "Drawn story"),
            ],
            title="Stories, written by editing",
            note=STORIES,
        ),
        "edits.html": to_html(
            films(edits / "edits.jsonl", Replayer(ActionVocab.load(edits), codec), "Draft"),
            title="Ten drafts, revised",
            note=DRAFTS,
        ),
        "gallery.html": to_html(
            printed_films(), title="The paper's ten trajectories", note=PAPER
        ),
        "maze.html": watch.page(
            watch.rows_of([watch.rollouts_of(path, watch.SHOWN) for path in watch.SAVED]),
            watch.CAPTIONS,
            watch.SHOWN,
            MAZES,
        ),
    }  # fmt: skip


def films(rollouts: Path, replayer: Replayer, name: str) -> list[Film]:
    """Return the films of a file of rollouts, numbered from 1."""
    lines = rollouts.read_text("utf-8").splitlines()
    return [
        replayer.film_of(Rollout.from_json(line), name=f"{name} {n}")
        for n, line in enumerate(lines, start=1)
    ]


def printed_films() -> list[Film]:
    """Return the paper's trajectories; token ids are invented, as the paper prints only text."""
    printed = json.loads(PRINTED.read_text("utf-8"))["printed"]
    tokens = list(dict.fromkeys(token for each in printed for token in _tokens(each)))
    ids = {token: n for n, token in enumerate(tokens)}
    vocab = ActionVocab.paper()
    replayer = Replayer(vocab, _codec(tokens))
    return [_printed_film(each, ids, vocab, replayer) for each in printed]


def _printed_film(
    printed: dict[str, Any], ids: dict[str, int], vocab: ActionVocab, replayer: Replayer
) -> Film:
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
    return replayer.film(trajectory, name=printed["name"], facts=facts)


def _tokens(printed: dict[str, Any]) -> list[str]:
    inserted = [argument[0] for kind, *argument in printed["actions"] if kind == "insert"]
    return [*printed["prefix"], *inserted]


def _codec(tokens: list[str]) -> Codec:
    """Return a codec that has exactly these tokens, byte for byte."""
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces = [cut.pre_tokenize_str(token)[0][0] for token in tokens]
    tokenizer = Tokenizer(models.BPE(vocab={p: n for n, p in enumerate(pieces)}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return Codec(tokenizer)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site; MkDocs calls this hook."""
    from mkdocs.structure.files import File

    for name, content in pages().items():
        files.append(File.generated(config, name, content=content))
    return files
