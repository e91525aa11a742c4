"""Proofread with your company's terms: python examples/company_terms.py FILE.

A proposer is a function from a text to suggestions. Ours are sure, so no judge is asked about them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import reviser
from reviser.proofread.suggestion import Suggestion

TERMS = {"acme cloud": "Acme Cloud", "e-mail": "email", "Acme Desk": "Acme Board"}


def terms(text: str) -> Iterator[Suggestion]:
    for wrong, right in TERMS.items():
        for match in re.finditer(rf"(?<![\w/.-]){re.escape(wrong)}(?![\w/-]|\.\w)", text):
            yield Suggestion(
                *match.span(),
                (right,),
                "our-terms",
                "term",
                f"We write '{right}'.",
                "us",
                sure=True,
            )


def main(file: str) -> None:
    draft = Path(file).read_text("utf-8")
    with reviser.proofreader(None, also=[terms]) as proofreader:
        for change in proofreader.revise(draft).changes:
            print(f"{change.before} -> {change.after}: {change.message}")


if __name__ == "__main__":
    main(sys.argv[1])
