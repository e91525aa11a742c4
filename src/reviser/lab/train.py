"""A run of `reviser lab train`: the recipe says by which method of the appendix, if any."""

from __future__ import annotations

from pathlib import Path

from reviser.errors import ConfigError
from reviser.lab import canvas_trunks, dagger
from reviser.lab.recipe import Dagger, LabRecipe
from reviser.train.run import finish, start, train_until


def train(recipe: LabRecipe, output: str | Path) -> Path:
    """Run a recipe to its end, from the last complete checkpoint in the output if there is one."""
    if recipe.reinforce is not None:
        from reviser.lab.reinforce.run import reinforce  # TRL is an extra of its own

        return reinforce(recipe, output)
    run, policy = start(recipe, output), recipe.policy
    if run is not None:
        canvas_trunks.set_vocab(run.inputs.model, run.inputs.vocab)  # a base may have had others
        if recipe.training.is_sharded and canvas_trunks.reads_canvas(run.inputs.model):
            raise ConfigError("A trunk that reads the canvas cannot be sharded: use parallel: ddp.")
        if isinstance(policy, Dagger):
            trainer = dagger.train_rounds(run, policy)
        else:
            trainer = train_until(recipe.training.steps, run)
        finish(run, trainer)
    return Path(output)
