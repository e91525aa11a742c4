"""Language models that write by editing.

Names are loaded on first use, so importing the package costs nothing a caller does not ask for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reviser.core.actions import Action, ActionVocab, Kind
    from reviser.core.canvas import Canvas, Edit
    from reviser.core.codec import Codec, TextEdit, TextStream
    from reviser.core.mask import ActionMask
    from reviser.core.trajectory import Trajectory
    from reviser.data.recorded import Recording
    from reviser.data.trajectory_files import write_trajectories
    from reviser.editor import Editor
    from reviser.engines.settings import DecodeConfig
    from reviser.errors import InvalidAction, ReviserError
    from reviser.model import Reviser, load
    from reviser.proofreading import proofreader
    from reviser.trajectories.policy import (
        PRESETS,
        Append,
        Mixture,
        Obfuscation,
        Policy,
        Spans,
    )
    from reviser.trajectories.refresh import Refresh
    from reviser.trajectories.sampler import Sampler
    from reviser.writing.changes import Change, Changes
    from reviser.writing.rollout import Revision, Rollout
    from reviser.writing.tasks import Continue, Infill, Revise, Task

__all__ = [
    "PRESETS",
    "Action",
    "ActionMask",
    "ActionVocab",
    "Append",
    "Canvas",
    "Change",
    "Changes",
    "Codec",
    "Continue",
    "DecodeConfig",
    "Edit",
    "Editor",
    "Infill",
    "InvalidAction",
    "Kind",
    "Mixture",
    "Obfuscation",
    "Policy",
    "Recording",
    "Refresh",
    "Revise",
    "Reviser",
    "ReviserError",
    "Revision",
    "Rollout",
    "Sampler",
    "Spans",
    "Task",
    "TextEdit",
    "TextStream",
    "Trajectory",
    "load",
    "proofreader",
    "write_trajectories",
]

_MODULES = {
    "reviser.writing.changes": ("Change", "Changes"),
    "reviser.core.actions": ("Action", "ActionVocab", "Kind"),
    "reviser.core.canvas": ("Canvas", "Edit"),
    "reviser.core.codec": ("Codec", "TextEdit", "TextStream"),
    "reviser.core.mask": ("ActionMask",),
    "reviser.trajectories.policy": (
        "PRESETS",
        "Append",
        "Mixture",
        "Obfuscation",
        "Policy",
        "Spans",
    ),
    "reviser.core.trajectory": ("Trajectory",),
    "reviser.data.recorded": ("Recording",),
    "reviser.data.trajectory_files": ("write_trajectories",),
    "reviser.trajectories.refresh": ("Refresh",),
    "reviser.trajectories.sampler": ("Sampler",),
    "reviser.editor": ("Editor",),
    "reviser.engines.settings": ("DecodeConfig",),
    "reviser.errors": ("InvalidAction", "ReviserError"),
    "reviser.model": ("Reviser", "load"),
    "reviser.proofreading": ("proofreader",),
    "reviser.writing.rollout": ("Revision", "Rollout"),
    "reviser.writing.tasks": ("Continue", "Infill", "Revise", "Task"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("reviser-lm")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'reviser' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
