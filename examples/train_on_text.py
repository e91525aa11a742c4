"""Train a new model on your own text: python examples/train_on_text.py TEXT OUTPUT [STEPS].

TEXT is a file or folder of plain text, JSON lines or parquet. This model is small enough for a
laptop; recipes/story.yaml has a larger one.
"""

import sys
from pathlib import Path

import reviser
from reviser.data.window_config import WindowConfig
from reviser.models.trunk_config import TrunkConfig
from reviser.train.recipe import DataConfig, EvaluationConfig, Recipe, TrainingConfig
from reviser.train.run import train


def main(text: str, output: str, steps: str = "300") -> None:
    recipe = Recipe(
        trunk=TrunkConfig(layers=3, width=128, heads=4, mlp_width=512, context=224, dropout=0.0),
        policy=reviser.PRESETS["spans-16"],  # sentences in any order
        data=DataConfig(
            text=(str(Path(text).resolve()),),
            bpe=512,  # the size of a tokenizer that is trained on the text
            windows=WindowConfig(size=136, prefix=(0, 24), held_out=0.05),
        ),
        training=TrainingConfig(
            steps=int(steps), batch=32, micro_batch=32, learning_rate=2e-3, warmup=30
        ),
        evaluation=EvaluationConfig(examples=64),
    )
    folder = train(recipe, output)
    with reviser.load(folder) as model:
        print(model.generate(max_actions=60).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
