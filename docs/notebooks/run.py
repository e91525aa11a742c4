"""Runs the notebooks of this folder from fresh kernels, and keeps what they show.

python docs/notebooks/run.py [NAME ...]      # minutes each; REVISER_QUICK=1 to try without keeping
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent


def executed(path: Path) -> NotebookNode:
    """The notebook with the outputs of a run from top to bottom; a cell that fails is an error."""
    notebook = nbformat.read(path, as_version=4)
    options = {
        "kernel_name": "python3",
        "timeout": None,
        "record_timing": False,
        "coalesce_streams": True,
    }
    client = NotebookClient(notebook, **options, resources={"metadata": {"path": str(FOLDER)}})
    with tempfile.TemporaryDirectory() as work:
        client.execute(env=os.environ | {"TMPDIR": work})
    return notebook


def clean(notebook: NotebookNode) -> None:
    """Leave out what differs from machine to machine: progress and warnings, versions."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if not _is_litter(each)]


def _is_litter(output: NotebookNode) -> bool:
    told = output.get("data", {}).get("text/plain", "")
    return output.get("name") == "stderr" or bool(re.match(r"step \d+ of \d+:", told))


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        notebook = executed(FOLDER / f"{name}.ipynb")
        clean(notebook)
        if os.environ.get("REVISER_QUICK") != "1":
            nbformat.write(notebook, FOLDER / f"{name}.ipynb")
