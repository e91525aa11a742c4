"""A model folder as a repository on the Hugging Face hub, uploaded in one commit.

In addition to the model, the repository has a card and, if the model's actions are those that
it knows, a script that lets plain Transformers write by editing (`assets/generate.py`).
"""

from __future__ import annotations

from pathlib import Path

from reviser.core.actions import FILE_NAME, OPERATORS, ActionVocab
from reviser.errors import CheckpointError, ConfigError, reason_of
from reviser.export.card import Card
from reviser.files import read_object
from reviser.models import hub

SCRIPT = Path(__file__).parent / "assets" / "generate.py"
SCRIPT_NAME = "custom_generate/generate.py"


def push(folder: Path, name: str, *, licence: str | None = None, private: bool = False) -> str:
    """Upload a model folder and return the address of the commit.

    Without a `licence`, the card must be in the folder and say it. The hub's library takes the
    token of `hf auth login` or of the variable HF_TOKEN.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HTTPError  # also of a connection that fails

    files = repository(folder, name, licence=licence)
    api, added = HfApi(library_name="reviser"), []
    for path, content in files.items():
        source = content.encode() if isinstance(content, str) else content
        added.append(CommitOperationAdd(path_in_repo=path, path_or_fileobj=source))
    try:
        api.create_repo(name, private=private, exist_ok=True)
        done = api.create_commit(name, added, commit_message="Upload a Reviser model")
    except (HTTPError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{str(folder)!r} could not be uploaded as {name!r}: {reason_of(error).rstrip('.')}."
            " Log in with `hf auth login`, and use a name such as yours/model."
        ) from error
    return str(done.commit_url)


def repository(folder: Path, name: str, *, licence: str | None = None) -> dict[str, str | Path]:
    """Return the files of a model's repository by their path: their text, or where they are."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {str(folder)!r}.")
    hub.find(folder, is_adapter_allowed=True)  # refuses files that lead out of it
    files: dict[str, str | Path] = {
        path.name: path for kind in hub.FOLDER_FILES for path in sorted(folder.glob(kind))
    }
    vocab = ActionVocab.load(folder)
    script = None if _unsupported(folder, vocab) else script_for(folder)
    if script is not None:
        files[SCRIPT_NAME] = script
    card = Card.of(folder, name, has_script=script is not None, licence=licence)
    return files | {"README.md": card.text()}


def script_for(folder: Path) -> str:
    """Return the script for plain Transformers with a model's action vocabulary."""
    fields = read_object(folder / FILE_NAME, CheckpointError)
    text, empty = SCRIPT.read_text("utf-8"), "VOCAB = {}\n"
    assert text.count(empty) == 1
    return text.replace(empty, f"VOCAB = {fields!r}\n")


def _unsupported(folder: Path, vocab: ActionVocab) -> bool:
    """Return whether a model has more than the script can do."""
    actions = any(getattr(vocab, name) is not None for name in (*OPERATORS, "find"))
    return actions or hub.is_adapter(folder) or hub.is_canvas_trunk(folder)
