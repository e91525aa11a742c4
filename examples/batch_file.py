"""Process a file of prompts: python examples/batch_file.py PROMPTS.jsonl OUTPUT.jsonl [MODEL].

Each line of the input is a JSON object with a "prompt", or with a text to "infill". Interrupt it
and run it again: it continues where it stopped. `reviser generate --input` does the same.
"""

import sys

from reviser.batch.job import begin
from reviser.batch.run import run


def main(prompts: str, output: str, model: str = "models/stories-revise") -> None:
    job = begin(prompts, output, model, settings={"seed": 7, "max_actions": 60})
    counts = run(job, progress=lambda done, total: print(f"{done} of {total} lines"))
    print(f"{output}: {counts.documents} lines, {counts.failed} with an error")


if __name__ == "__main__":  # workers are processes that import this file
    main(*sys.argv[1:])
