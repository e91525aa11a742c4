"""Language models that write by editing.

Names are loaded on first use, so importing the package costs nothing a caller does not ask for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reviser.core.actions import Action, ActionVocab, Kind
    from reviser.core.canvas import Canvas, Edit
    from reviser.core.codec import Codec, TextEdit, TextStream
    from reviser.core.mask import Boundary
    from reviser.core.trajectory import Trajectory
    from reviser.engines.base import DecodeConfig
    from reviser.errors import InvalidAction, ReviserError
    from reviser.trajectories.policy import (
        PRESETS,
        Append,
        Mixture,
        Noise,
        Obfuscation,
        Policy,
        Spans,
    )
    from reviser.trajectories.sampler import Sampler
    from reviser.writing.changes import Change, Changes
    from reviser.writing.model import Reviser, Revision, Rollout, load

__all__ = [
    "PRESETS",
    "Action",
    "ActionVocab",
    "Append",
    "Boundary",
    "Canvas",
    "Change",
    "Changes",
    "Codec",
    "DecodeConfig",
    "Edit",
    "InvalidAction",
    "Kind",
    "Mixture",
    "Noise",
    "Obfuscation",
    "Policy",
    "Reviser",
    "ReviserError",
    "Revision",
    "Rollout",
    "Sampler",
    "Spans",
    "TextEdit",
    "TextStream",
    "Trajectory",
    "load",
]

_ROOMS = {
    "reviser.writing.changes": ("Change", "Changes"),
    "reviser.core.actions": ("Action", "ActionVocab", "Kind"),
    "reviser.core.canvas": ("Canvas", "Edit"),
    "reviser.core.codec": ("Codec", "TextEdit", "TextStream"),
    "reviser.core.mask": ("Boundary",),
    "reviser.trajectories.policy": (
        "PRESETS",
        "Append",
        "Mixture",
        "Noise",
        "Obfuscation",
        "Policy",
        "Spans",
    ),
    "reviser.core.trajectory": ("Trajectory",),
    "reviser.trajectories.sampler": ("Sampler",),
    "reviser.engines.base": ("DecodeConfig",),
    "reviser.errors": ("InvalidAction", "ReviserError"),
    "reviser.writing.model": ("Reviser", "Revision", "Rollout", "load"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("reviser-lm")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'reviser' has no attribute {name!r}")
    return getattr(import_module(_ROOM_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
