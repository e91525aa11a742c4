"""The recipe for servers: datatrove's InferenceRunner against `/v1/completions`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

for name in (
    "aiofiles",
    "aiosqlite",
    "httpx",
    "openai",
    "orjson",
    "xxhash",
    "datatrove",
    "pyarrow",
):
    pytest.importorskip(name, reason=f"{name} is not installed; the recipe needs it.")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from support import serving  # noqa: E402

RECIPE = Path(__file__).parents[2] / "recipes" / "batch_servers.py"

LOSING = """
import runpy, sys
from datatrove.pipeline.inference.checkpointing import CheckpointManager

write = CheckpointManager.write_document

async def lose_one(self, document, *words):
    if document.id == "7":
        raise OSError("The disk is full.")
    await write(self, document, *words)

CheckpointManager.write_document = lose_one
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The recipe with a document that cannot be saved, which datatrove alone calls a success."""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.mark.full
def test_every_prompt_is_continued_and_lost_documents_are_a_failure(tmp_path: Path) -> None:
    prompts = [f"Ben had {n}" for n in range(30)]
    (tmp_path / "in").mkdir()
    table = pa.table({"id": [str(n) for n in range(30)], "prompt": prompts})
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    with serving.serving() as server:
        words = (server.url, serving.NAME, tmp_path / "in")
        told = run(RECIPE, *words, tmp_path / "out")
        assert told.returncode == 0, told.stderr
        records = [
            json.loads(line)
            for path in (tmp_path / "out").glob("*.jsonl")
            for line in path.read_text("utf-8").splitlines()
        ]
        assert sorted(record["id"] for record in records) == sorted(map(str, range(30)))
        for record in records:
            [result] = record["metadata"]["rollout_results"]
            assert result["finish_reason"] in ("stop", "length")
        told = run("-c", LOSING, RECIPE, *words, tmp_path / "lost")
        assert told.returncode != 0
        assert "Documents that could not be saved: 1. See the log." in told.stderr
