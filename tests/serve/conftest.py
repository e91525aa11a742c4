"""A server for the tests of one file that need no settings of their own."""

from collections.abc import Iterator

import pytest

from support.serving import Served, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served
