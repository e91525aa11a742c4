"""`reviser tokenize` on a Ray cluster: run it where `ray.init()` finds the cluster.

It waits for the tasks, one per shard, and writes the manifest. Run it again to do the remaining
tasks. The folder must be on a disk that all nodes share. Needs datatrove[ray].
"""

import sys

import ray
from datatrove.executor import RayPipelineExecutor

from reviser.data.pipeline import make_plan
from reviser.data.readers import Reader
from reviser.data.shards import finish

if __name__ == "__main__":
    output, tokenizer, *sources = sys.argv[1:]
    plan = make_plan(sources, output, tokenizer, reader=Reader(split="blank", text_key="text"))
    # Ray does not bind tasks to cores, and the tokenizer would use all of them.
    ray.init(runtime_env={"env_vars": {"RAYON_NUM_THREADS": "1"}})
    executor = RayPipelineExecutor(
        plan.pipeline(),
        tasks=len(plan.tasks),
        cpus_per_task=1,
        logging_dir=str(plan.logs),
    )
    executor.run()
    finish(output)
