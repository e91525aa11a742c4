"""A disk without space left, as one process sees it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(after: int) -> Iterator[None]:
    """Let the system refuse to make any file longer than `after` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
