"""Harper, a rule-based checker, as a proposer. Its suggestions are never sure."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Literal, TypeAlias, get_args

from reviser.errors import ConfigError, MissingExtra
from reviser.proofread.suggestion import Suggestion

HarperDialect: TypeAlias = Literal["american", "british"]


class Harper:
    """Suggest what Harper's rules find in a text; opening it takes about a second."""

    may_be_sure = False

    def __init__(self, dialect: HarperDialect = "american") -> None:
        try:
            import harper
        except ModuleNotFoundError as error:
            raise MissingExtra(
                "Harper needs the harper extra: harper-py is not installed. Install it with:"
                " pip install 'reviser-lm[harper]'."
            ) from error
        if dialect not in get_args(HarperDialect):
            raise ConfigError(f"dialect is {dialect!r}; it must be 'american' or 'british'.")
        self._linter = harper.Linter(harper.Dialect[dialect.upper()])
        self._lock = Lock()  # it refuses a second thread

    def __call__(self, text: str) -> Iterator[Suggestion]:
        """Yield suggestions for a text; Harper's own names of rules, such as "SpellCheck"."""
        with self._lock:
            found = self._linter.organized_lints(text, language="plaintext")
        for rule, lint in ((rule, lint) for rule, lints in found.items() for lint in lints):
            for each in lint.suggestions:
                start = lint.span.end if each.kind.name == "INSERT_AFTER" else lint.span.start
                kind, reason = lint.lint_kind_pretty.lower(), lint.message.replace("`", "'")
                new = (each.replacement_text,)
                yield Suggestion(start, lint.span.end, new, rule, kind, reason, "harper")
