"""Where the repository and the data beside it are."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
DATA = Path(os.environ.get("REVISER_DATA") or SHARED / "data")
PAPER = Path(os.environ.get("REVISER_PAPER") or SHARED / "paper" / "reviser.tex")
