"""The layout of the tables that `policy` compiles and the kernels read.

No numba here, so that a policy can be checked without importing a compiler.
"""

from __future__ import annotations

WHOLE = 1 << 32
"""A probability of 1. Probabilities are thresholds for random numbers below it."""
MEAN_SCALE = 1 << 16
"""A mean length of 1 token, so that fractions of a token are integers too."""
MIN_NOISE_SPAN, MAX_NOISE_SPAN = 2, 8
"""Fewest and most tokens of a span of noise."""

# A policy is one row, a mixture one row per component. Appending is a single span.
OBFUSCATE, SPANS = 0, 1  # values of KIND

# Columns of a row. The operations from DELETE to SPAN_MOVE are tried in this order, so each
# threshold holds the sum of the shares so far. WEIGHT sums up the weights of a mixture likewise.
(KIND, WEIGHT, DELETE, INSERT, REPLACE, SWAP, SPAN_INSERT, SPAN_MOVE, START_LEFT, MERGE,
 MAX_STEPS, MEAN_SPAN, UNIT, LATE, COLUMNS) = range(15)  # fmt: skip
MOVE = SPAN_MOVE + 1  # an operation without a column: what remains if no threshold is met

# Entries of `ids`: the part of an ActionVocab that restorations are written with.
(ID_STOP, ID_FIRST_MOVE, ID_DELETE, ID_REPLACE, ID_SWAP, ID_SPAN_DELETE, ID_SPAN_MOVE, ID_END,
 MAX_MOVE, ID_BACK, ID_MARK, IDS) = range(12)  # fmt: skip

MAX_ATTEMPTS = 1000
"""Walks over the step budget before sampling gives up."""
