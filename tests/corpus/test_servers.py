"""The recipe for servers: datatrove's InferenceRunner against `/v1/completions`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

for name in ("aiofiles", "aiosqlite", "httpx", "openai", "xxhash", "datatrove", "pyarrow"):
    pytest.importorskip(name, reason=f"{name} is not installed; the recipe needs it.")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from support import serving  # noqa: E402

RECIPE = Path(__file__).parents[2] / "recipes" / "corpus_servers.py"


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
        # Without aiofiles nothing can be saved, and datatrove alone would call that a success.
        broken = "import sys, runpy; sys.modules['aiofiles'] = None; "
        broken += "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        told = run("-c", broken, RECIPE, *words, tmp_path / "lost")
        assert told.returncode != 0
        assert "30 documents could not be saved" in told.stderr
