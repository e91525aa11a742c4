"""Decoding settings: each is declared once, with its default, its range and a sentence of help.

`DecodeConfig` holds the values and checks them. `SETTINGS` describes them; the command's options,
the fields of HTTP requests and the arguments that are sent to vLLM derive from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, TypedDict, get_type_hints

from reviser.errors import ConfigError, did_you_mean

MAX_VALUE = 2**40 - 1
"""Upper bound of settings that count something; the mask computes with numbers below 2**40."""


MAX_RANGES = 1000
"""Limit of the ranges of a request. A mask is as wide as the largest request of its batch, so one
request with many ranges would slow down all others."""


@dataclass(frozen=True)
class Setting:
    """One decoding setting: its name, type, default, range and help."""

    name: str
    type: type[int] | type[float]
    default: int | float | None
    low: int | float
    high: int | float
    help: str
    is_optional: bool
    """True if None is a value too: then there is no limit."""
    excludes_low: bool
    """True if a value must be above `low`, not equal to it."""

    def check(self, value: object) -> int | float | None:
        """Return a value in the setting's own type, or raise ConfigError."""
        if value is None and self.is_optional:
            return None
        number: Any = value if isinstance(value, Integral if self.type is int else Real) else None
        if (
            number is None
            or isinstance(value, bool)
            or not self.low <= number <= self.high
            or (self.excludes_low and number == self.low)
        ):
            raise ConfigError(f"{self.name} is {_shown(value)}; it must be {self.allowed}.")
        return self.type(number)

    @property
    def allowed(self) -> str:
        """The allowed values in words, such as "a number from 0 to 1"."""
        kind = "a whole number" if self.type is int else "a number"
        if self.high == MAX_VALUE:
            return f"{kind}, {self.low} or more"
        if self.excludes_low:
            return f"{kind} above {self.low} and at most {self.high}"
        return f"{kind} from {self.low} to {self.high}"


def setting(
    default: float | None,
    low: float,
    high: float,
    help: str,  # noqa: A002  # as in click and argparse
    *,
    excludes_low: bool = False,
) -> Any:
    """Return a dataclass field with the range and the help of a setting."""
    metadata = {"low": low, "high": high, "help": help, "excludes_low": excludes_low}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """The way actions are chosen; the defaults are the paper's.

    >>> DecodeConfig(temperature=0).temperature
    0.0
    >>> DecodeConfig(top_p=2)
    Traceback (most recent call last):
    reviser.errors.ConfigError: top_p is 2; it must be a number above 0 and at most 1.
    """

    temperature: float = setting(
        0.9, 0, 1000, "Randomness of the choice; 0 always takes the most likely action."
    )
    top_k: int = setting(
        50, 0, 2**31 - 1, "Choose among this many of the most likely actions; 0 for all."
    )
    top_p: float = setting(
        1.0,
        0,
        1,
        "Choose among the most likely actions whose probabilities add up to this.",
        excludes_low=True,
    )
    min_p: float = setting(
        0.0, 0, 1, "Leave out actions below this share of the highest probability."
    )
    seed: int = setting(0, 0, 2**64 - 1, "Random seed.")
    max_actions: int = setting(256, 1, MAX_VALUE, "Maximum number of actions.")
    max_length: int | None = setting(
        None, 0, MAX_VALUE, "Maximum length of the text in tokens, prompt included."
    )
    max_edits: int | None = setting(
        None, 0, MAX_VALUE, "Maximum number of actions that change the text."
    )
    max_moves: int | None = setting(
        None, 0, MAX_VALUE, "Maximum number of cursor moves in a row; 0 for none."
    )
    # Finite in float32, whatever the temperature divides them by.
    stop_bias: float = setting(
        0.0, -1e30, 1e30, "Added to the logit of stopping: negative values give longer texts."
    )
    # Not added to `back`, or the cursor would return too soon; nor to the digits of an operator's
    # number, which share the moves' ids: there it would change the length of the operator's span.
    move_bias: float = setting(
        0.0, -1e30, 1e30, "Added to the logits of cursor moves, searches and marks."
    )

    def __post_init__(self) -> None:
        for each in SETTINGS.values():
            object.__setattr__(self, each.name, each.check(getattr(self, each.name)))

    @classmethod
    def of(cls, settings: Mapping[str, object], base: DecodeConfig | None = None) -> DecodeConfig:
        """Return a base config, or the default one, with some settings changed by name."""
        for name in settings:
            if name not in SETTINGS:
                raise ConfigError(f"`{name}` is not a setting. {did_you_mean(name, SETTINGS)}")
        return replace(base or cls(), **settings)  # type: ignore[arg-type]

    def with_seed_offset(self, offset: int) -> DecodeConfig:
        """Return the config of the n-th of many tasks: its seed is that much higher."""
        return replace(self, seed=(self.seed + offset) % 2**64) if offset else self


class DecodeSettings(TypedDict, total=False):
    """The fields of `DecodeConfig` as keyword arguments."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    max_actions: int
    max_length: int | None
    max_edits: int | None
    max_moves: int | None
    stop_bias: float
    move_bias: float


def _described() -> dict[str, Setting]:
    hints = get_type_hints(DecodeConfig)
    found = {}
    for each in fields(DecodeConfig):
        assert each.default is not MISSING
        kind = hints[each.name]
        found[each.name] = Setting(
            name=each.name,
            type=kind if kind in (int, float) else int,
            default=each.default,
            is_optional=each.default is None,
            **each.metadata,
        )
    return found


SETTINGS: dict[str, Setting] = _described()
"""Every setting by name, in the order of `DecodeConfig`."""


def _shown(value: object) -> str:
    """Return a value for a message; a number of a thousand digits is cut."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:60] + "..."
