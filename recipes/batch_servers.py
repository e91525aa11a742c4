"""Many prompts to servers that already run, with datatrove's InferenceRunner.

    python recipes/batch_servers.py http://localhost:8000 MODEL INPUT OUTPUT

INPUT is a folder of Parquet files with a column `prompt`, local or a URL. MODEL is the name that
/v1/models gives. Run the same command again to continue. For a cluster, put datatrove's
SlurmPipelineExecutor or RayPipelineExecutor in place of the local one; for several servers, give
the URL of a load balancer. Needs: pip install aiofiles aiosqlite httpx openai orjson xxhash
"""

import hashlib
import sys

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.inference.run_inference import InferenceConfig, InferenceRunner
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import JsonlWriter


class StrictRunner(InferenceRunner):
    """A runner that fails if documents were lost; datatrove's own only counts them."""

    def run(self, data, rank=0, world_size=1):
        """Run all documents of a task; a failed task is not marked as complete."""
        super().run(data, rank, world_size)
        if "failed_documents" in self.stats.stats:
            lost = int(self.stats.stats["failed_documents"].total)
            raise RuntimeError(f"Documents that could not be saved: {lost}. See the log.")


async def continue_prompt(document, generate):
    """Continue one prompt, with a seed that depends on the document's id alone."""
    seed = int(hashlib.sha256(document.id.encode()).hexdigest()[:8], 16)
    result = await generate({"prompt": document.text, "seed": seed, "max_tokens": 256})
    return {"text": result.text, "finish_reason": result.finish_reason, "seed": seed}


if __name__ == "__main__":
    url, model, source, output = sys.argv[1:]
    runner = StrictRunner(
        continue_prompt,
        InferenceConfig(
            server_type="endpoint",
            endpoint_url=url,
            model_name_or_path=model,
            use_chat=False,
            max_concurrent_generations=64,
        ),
        JsonlWriter(output, "${rank}_${chunk_index}.jsonl", compression=None),
        checkpoints_local_dir=f"{output}/checkpoints",
        records_per_chunk=1000,
    )
    reader = ParquetReader(source, text_key="prompt", glob_pattern="*.parquet")
    LocalPipelineExecutor([reader, runner], tasks=1, logging_dir=f"{output}/logs").run()
