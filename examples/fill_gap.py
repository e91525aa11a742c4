"""Fill the gaps of a text: python examples/fill_gap.py "Ben ran home. {} Mom smiled." [MODEL].

Everything around the gaps is locked, and the result proves that it was not changed.
"""

import sys

import reviser


def main(text: str = "Ben ran home. {} Mom smiled.", model: str = "models/stories-revise") -> None:
    with reviser.load(model) as opened:
        rollout = opened.infill(text, seed=7, max_actions=60)
    print(rollout.text)
    for part in rollout.locked:
        assert part.before == part.after  # SHA-256 of the bytes before and after


if __name__ == "__main__":
    main(*sys.argv[1:])
