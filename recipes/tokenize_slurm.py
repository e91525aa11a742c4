"""`reviser tokenize` on a Slurm cluster: run it on the login node, and again to finish.

The first run submits a job array, one task per shard. When the array is done, the same command
writes the manifest; if tasks failed, it submits those again. The folder must be on a disk that
all nodes share. A datatrove filter can be inserted between the two steps of the pipeline.
"""

import sys

from datatrove.executor.slurm import SlurmPipelineExecutor

from reviser.data.pipeline import make_plan
from reviser.data.readers import Reader
from reviser.data.shards import finish

if __name__ == "__main__":
    output, tokenizer, *sources = sys.argv[1:]
    plan = make_plan(sources, output, tokenizer, reader=Reader(split="blank", text_key="text"))
    executor = SlurmPipelineExecutor(
        plan.pipeline(),
        tasks=len(plan.tasks),
        time="04:00:00",
        partition="cpu",
        cpus_per_task=4,
        job_name="tokenize",
        logging_dir=str(plan.logs),
    )
    if executor.get_incomplete_ranks():
        executor.run()
    else:
        finish(output)
