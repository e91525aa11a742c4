"""Models by name: a folder that is there, or a download from the hub."""

from __future__ import annotations

from pathlib import Path

from reviser.errors import CheckpointError, MissingExtra

WHOLE = ("*.json", "*.safetensors", "tokenizer.model")
"""The files of a model: no pickles, no code."""
SMALL = ("*.json",)
"""Those without the weights: all that is needed where another process runs the model."""


def find(name: str | Path, files: tuple[str, ...] = WHOLE, *, revision: str | None = None) -> Path:
    """The folder of a model: the one named, or else a download of that name from the hub."""
    if not isinstance(name, str | Path) or not str(name):
        raise CheckpointError(f"A model is named by its folder or its hub name; got {name!r}.")
    if Path(name).is_dir():
        return Path(name)
    if str(name).startswith(("/", ".", "~")):
        raise CheckpointError(f"There is no folder {str(name)!r}.")
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"There is no folder {str(name)!r}, and models from the hub need the hf extra. Install"
            " it with: pip install 'reviser-lm[hf]'."
        ) from error
    try:
        folder = huggingface_hub.snapshot_download(
            str(name), revision=revision, allow_patterns=list(files)
        )
    except (OSError, ValueError) as error:  # the hub's own errors are among these
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CheckpointError(
            f"There is no folder {str(name)!r}, and the hub gave no model of that name: {reason}"
        ) from error
    return Path(folder)
