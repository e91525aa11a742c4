"""Loops over integers that numba compiles; nothing here is public.

From low to high: `layout` (the tables that policies compile to), `jit` (how functions are
compiled), `philox` (random numbers), `backward` (writing a restoration from its end), `walks`
(Algorithm 2), `spans` and `sampling` (a batch of any policy). Beside them stand `diff` and
`sweep`, the dynamic programs of the alignment, which draw nothing. `tests/support/naive_policy.py`
is a slow reference for all sampling.
"""
