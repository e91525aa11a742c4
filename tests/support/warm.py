"""What the fork server of `support.processes` imports before it forks: only that server reads it.

Nothing here may start a thread or compute with torch: a fork copies neither.
"""

import importlib

MODULES = (
    "pytest",  # the main module of a test process that multiprocessing imports again in a child
    "numba",
    "torch",
    "torch.distributed.tensor",
    "transformers.trainer",
    "transformers.models.gpt_neox.modeling_gpt_neox",
    "transformers.models.llama.modeling_llama",
    "reviser.cli",
    "reviser.engines.hf",
    "reviser.lab.evals.report",
    "reviser.lab.reproduce",
    "reviser.train.run",
    "reviser.batch.run",
    "reviser.lab.reinforce.run",  # last: an environment without TRL has all the others
)
for name in MODULES:
    importlib.import_module(name)
