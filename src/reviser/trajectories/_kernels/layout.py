"""The layout of the tables that `policy` compiles and the kernels read.

No numba here, so that a policy can be checked without importing a compiler.
"""

from __future__ import annotations

WHOLE = 1 << 32
"""A probability of 1. Probabilities are thresholds for random numbers below it."""
MEAN_SCALE = 1 << 16
"""A mean length of 1 token, so that fractions of a token are integers too."""

# A policy is one row, a mixture one row per component. Appending is a single span.
OBFUSCATE, SPANS = 0, 1  # values of KIND

# Columns of a row. WEIGHT holds the sum of the weights of a mixture up to this component.
KIND, WEIGHT, DELETE, START_LEFT, MERGE, MAX_STEPS, MEAN_SPAN, UNIT, LATE, COLUMNS = range(10)

# Entries of `ids`: the part of an ActionVocab that restorations are written with.
ID_STOP, ID_FIRST_MOVE, MAX_MOVE, ID_BACK, ID_MARK, IDS = range(6)

MAX_ATTEMPTS = 1000
"""Walks over the step budget before sampling gives up."""
