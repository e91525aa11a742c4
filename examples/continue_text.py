"""Continue a prompt: python examples/continue_text.py "Ben had a red ball." [MODEL]."""

import sys

import reviser


def main(prompt: str = "Ben had a red ball.", model: str = "models/stories-revise") -> None:
    with reviser.load(model) as opened:
        rollout = opened.generate(prompt, seed=7, max_actions=60)
    print(rollout.text)
    print(f"({rollout.statistics.actions} actions, {rollout.statistics.moves} of them moves)")


if __name__ == "__main__":
    main(*sys.argv[1:])
