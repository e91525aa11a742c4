"""The page of the proofreading results."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from proofreader_modules import opened


def test_the_page_is_what_the_results_give():
    page = opened("page")
    expected = "python page.py in experiments/proofreader"
    assert page.PAGE.read_text("utf-8") == page.page(page.read()), expected
