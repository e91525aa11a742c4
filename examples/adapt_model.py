"""Turn a causal LM into one that edits: python examples/adapt_model.py BASE TEXT OUTPUT [STEPS].

BASE is a folder or a name on the Hugging Face hub. The model keeps what it knows: half of the
training examples are ordinary left-to-right text.
"""

import sys
from pathlib import Path

import reviser
from reviser.train.recipe import load_recipe
from reviser.train.run import train

RECIPE = Path(__file__).parent.parent / "recipes" / "adapt.yaml"


def main(base: str, text: str, output: str, steps: str = "400", *changes: str) -> None:
    own = [f"base={base}", f"data.text=[{Path(text).resolve()}]", f"training.steps={steps}"]
    folder = train(load_recipe(RECIPE, [*own, *changes]), output)
    with reviser.load(folder) as model:
        print(model.generate("Once upon a time", max_actions=60).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
