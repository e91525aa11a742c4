"""A request on its way to another process: its history, and beside it what the mask must know.

Flat, and only numbers and lists, since that is what vLLM passes on. Length and cursor are not sent:
whoever reads takes them from the history, so nobody can be wrong about them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.core.mask import check_gaps
from reviser.engines.base import DecodeConfig, Request, measure
from reviser.errors import ConfigError

SETTINGS = ("max_length", "max_edits", "max_moves", "stop_bias", "move_bias")
"""Of `DecodeConfig`, what the mask needs; the engine knows the others by its own names."""
PREFIX = "reviser_"
GAPS = PREFIX + "gaps"
NAMES = (GAPS, *(PREFIX + name for name in SETTINGS))

MOST_GAPS = 1000
"""A mask is as wide as the request with the most gaps in a batch, so one must not slow all."""


def write(request: Request) -> dict[str, Any]:
    """What goes with a request's history."""
    settings = {PREFIX + name: getattr(request.config, name) for name in SETTINGS}
    gaps = [bound for gap in request.gaps for bound in gap]
    return {GAPS: gaps} | {name: value for name, value in settings.items() if value is not None}


def read(vocab: ActionVocab, history: Sequence[int], args: Mapping[str, Any]) -> Request:
    """Read what `write` wrote.

    Without gaps all that the history wrote is locked, and there is one gap at its end.
    """
    config = check(args)
    length, cursor = measure(vocab, history)
    bounds = args.get(GAPS, [length, length])
    gaps = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    check_gaps(length, cursor, gaps)
    return Request(history=tuple(history), length=length, cursor=cursor, gaps=gaps, config=config)


def check(args: Mapping[str, Any]) -> DecodeConfig:
    """Refuse arguments of an unknown name, a wrong type or outside their range."""
    for name in args:
        if name.startswith(PREFIX) and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(NAMES)}."
            raise ConfigError(f"{name!r} is no argument of the mask. {advice}")
    bounds = args.get(GAPS, [])
    is_list = isinstance(bounds, list | tuple) and all(type(bound) is int for bound in bounds)
    if not (is_list and len(bounds) % 2 == 0 and all(0 <= bound < 1 << 40 for bound in bounds)):
        raise ConfigError(
            f"{GAPS} is {bounds!r}; give a flat list of whole numbers, low and high of each gap in"
            " turn."
        )
    if len(bounds) > 2 * MOST_GAPS:
        raise ConfigError(f"{GAPS} has {len(bounds) // 2} gaps; {MOST_GAPS} are allowed.")
    if any(a > b for a, b in pairwise(bounds)):
        raise ConfigError(f"{GAPS} is {list(bounds)}; its bounds must not fall.")
    given = {name: args[PREFIX + name] for name in SETTINGS if PREFIX + name in args}
    try:
        return DecodeConfig(**given)
    except ConfigError as error:
        raise ConfigError(f"{PREFIX}{error}") from error
