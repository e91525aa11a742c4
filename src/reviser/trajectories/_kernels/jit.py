"""Compilation and caching of the kernels, and the types of their arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from inspect import getsourcefile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core import _moves
from reviser.errors import MissingExtra

try:
    from numba import njit
except ModuleNotFoundError as error:
    raise MissingExtra(
        "Sampling trajectories and aligning texts need the train extra: numba is not installed."
        " Install it with: pip install 'reviser-lm[train]'."
    ) from error

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_FILES = [*sorted(Path(__file__).parent.glob("*.py")), Path(getsourcefile(_moves) or "")]
SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()
"""A hash of every file that compiled code comes from."""

# Only what Python calls is cached: a cached function is linked, not inlined, into its callers.
compiled: Any = njit(nogil=True)
inlined: Any = njit(nogil=True, forceinline=True)  # too small to pay for a call


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and cache it until one of `SOURCES` changes.

    By itself numba would look at the file of the function only, and use a stale cache after a
    change to what the function calls.
    """
    dispatcher = njit(cache=True, nogil=True)(function)
    with suppress(AttributeError):  # there is no cache if NUMBA_DISABLE_JIT is set
        dispatcher._cache._cache_file._source_stamp = SOURCES
    return dispatcher
