"""The playground: one page to try a model, for a server and for static hosts.

The page knows its model only through a module `backend.js`, which the package that shows the page
adds: `serve` has one that asks the server, `export` has one that runs the model in the browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reviser.errors import CheckpointError
from reviser.files import read_object
from reviser.models.info import context_of
from reviser.player import page

__all__ = ["PROOFREADER", "PageText", "files", "html", "read_page_text"]

FILES = ("playground.js", "surface.js", "proofread.js", "suggestions.js", "dictionary.js", "dom.js",
         "edits.js", "player.css", "playground.css", "icon.svg")  # fmt: skip
PAGE_FILE = "page.json"
"""An optional file of a model folder: what the page says about the model, and its examples."""


@dataclass(frozen=True, kw_only=True)
class PageText:
    """What the page says about a model."""

    about: str = ""
    """What the model writes and what its limits are, in a few sentences."""
    examples: tuple[str, ...] = ()
    """Texts to start from; a text with {} has gaps to fill."""
    seed: int = 0
    """Seed of the text that a static page shows first, written from the first example."""


LETTER = """\
Dear Ms Okafor,

Thank you for you're letter of the the 3rd of may. I recieved it on monday, and i read it with\
 grate pleasure. My sister and me would of answered sooner, but we was away for an week.

The two rooms on the second floor is free in june. Each of them have a view over the harbour, and\
 breakfast is included. Please let us know untill friday how many guests your expecting.

Kind regards,
Tomasz Wieczorek
"""
PROOFREADER = PageText(
    about="Rules and word lists suggest corrections, and a language model judges them.",
    examples=(LETTER,),
)
"""What the page says about the proofreader."""


def html(*, head: str = "", folder: str = "") -> str:
    """Return the page; its files are in `folder`, which is empty or ends with a slash."""
    return page.filled(page.asset("playground.html"), {"head": head, "folder": folder})


def files() -> dict[str, str]:
    """Return the files of the page by name, all but `backend.js`."""
    return {name: page.asset(name) for name in FILES}


def read_page_text(folder: Path) -> PageText:
    """Read the page.json of a model folder; without one, the text states the model's context."""
    path = folder / PAGE_FILE
    if not path.is_file():
        limit = (context_of(folder) or 1) - 1
        about = f"This model reads and writes up to {limit:,} tokens at a time."
        return PageText(about=about if limit else "")
    fields = read_object(path, CheckpointError)
    about, examples = fields.pop("about", None), fields.pop("examples", [])
    seed = fields.pop("seed", 0)
    is_list = isinstance(examples, list)
    texts = [about, *(examples if is_list else ())]
    is_text = all(isinstance(each, str) for each in texts)
    if fields or not is_list or not is_text or type(seed) is not int:
        raise CheckpointError(
            f"{str(path)!r} must have a text `about`. It may have a list of texts `examples`"
            " and a number `seed`, and nothing else."
        )
    return PageText(about=str(about), examples=tuple(texts[1:]), seed=seed)
