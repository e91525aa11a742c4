"""A model folder as a repository on the Hugging Face hub, uploaded in one commit, with a card."""

from __future__ import annotations

from pathlib import Path

from reviser.errors import CheckpointError, ConfigError, reason_of
from reviser.export.card import Card
from reviser.models import hub


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
    return files | {"README.md": Card.of(folder, name, licence=licence).text()}
