"""A model's small files, without its weights: all that is needed where another process runs it."""

from __future__ import annotations

from pathlib import Path

from reviser.errors import CheckpointError, MissingExtra


def small_files(name: str | Path, revision: str | None = None) -> Path:
    """A folder with tokenizer and `action_vocab.json`: the one named, or else from the hub."""
    if Path(name).is_dir():
        return Path(name)
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Models from the hub need huggingface-hub. Install it with: pip install"
            " 'reviser-lm[hf]'."
        ) from error
    try:
        files = huggingface_hub.snapshot_download(
            str(name), revision=revision, allow_patterns=["*.json"]
        )
    except (OSError, ValueError) as error:  # the hub's own errors are among these
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CheckpointError(
            f"There is no folder {str(name)!r}, and the hub gave no model of that name: {reason}"
        ) from error
    return Path(files)
