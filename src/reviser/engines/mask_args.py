"""The form in which a request reaches another process: its history, and arguments for the mask.

The arguments are flat, and only numbers and lists, because vLLM passes nothing else on. Length and
cursor are not sent: the receiver computes them from the history, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.core.mask import check_editable
from reviser.engines.base import DecodeConfig, Request, measure
from reviser.engines.settings import MAX_RANGES
from reviser.errors import ConfigError, did_you_mean

MASK_SETTINGS = ("max_length", "max_edits", "max_moves", "stop_bias", "move_bias")
"""The settings that the mask needs; vLLM has the others under names of its own."""
PREFIX = "reviser_"
EDITABLE = PREFIX + "editable"
NAMES = (EDITABLE, *(PREFIX + name for name in MASK_SETTINGS))


def write(request: Request) -> dict[str, Any]:
    """Return the arguments that accompany a request's history."""
    settings = {PREFIX + name: getattr(request.config, name) for name in MASK_SETTINGS}
    bounds = [bound for pair in request.editable for bound in pair]
    return {EDITABLE: bounds} | {
        name: value for name, value in settings.items() if value is not None
    }


def read(vocab: ActionVocab, history: Sequence[int], args: Mapping[str, Any]) -> Request:
    """Return the request that `write` was called with.

    Without ranges, everything that the history wrote is locked, and there is one range at its end.
    """
    config = check(args)
    length, cursor = measure(vocab, history)
    bounds = args.get(EDITABLE, [length, length])
    editable = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    check_editable(length, cursor, editable)
    return Request(
        history=tuple(history),
        length=length,
        cursor=cursor,
        editable=editable,
        config=config,
    )


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(each) is int for each in value)


def check(args: Mapping[str, Any]) -> DecodeConfig:
    """Refuse arguments of an unknown name, a wrong type or outside their range."""
    for name in args:
        if name.startswith(PREFIX) and name not in NAMES:
            raise ConfigError(
                f"`{name}` is not an argument of the mask. {did_you_mean(name, NAMES)}"
            )
    bounds = args.get(EDITABLE, [])
    if not (
        _is_numbers(bounds)
        and len(bounds) % 2 == 0
        and all(0 <= bound < 1 << 40 for bound in bounds)
    ):
        raise ConfigError(
            f"{EDITABLE} is {bounds!r}; give a flat list of whole numbers, low and high of each"
            " range in turn."
        )
    if len(bounds) > 2 * MAX_RANGES:
        raise ConfigError(f"{EDITABLE} has {len(bounds) // 2} ranges; {MAX_RANGES} are allowed.")
    if any(a > b for a, b in pairwise(bounds)):
        raise ConfigError(f"{EDITABLE} is {list(bounds)}; its bounds must not fall.")
    given = {name: args[PREFIX + name] for name in MASK_SETTINGS if PREFIX + name in args}
    try:
        return DecodeConfig(**given)
    except ConfigError as error:
        raise ConfigError(f"{PREFIX}{error}") from error
