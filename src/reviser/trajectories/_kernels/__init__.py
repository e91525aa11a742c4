"""Loops over integers that numba compiles; nothing here is public.

From low to high: `layout` (the tables that policies compile to), `jit` (how functions are
compiled), `philox` (random numbers), `backward` (writing a restoration from its end), `walks`
(Algorithm 2), `spans` and `sampling` (a batch of any policy). `diff` is the dynamic program of the
alignment and uses no random numbers. `tests/support/naive_policy.py` is a slow reference for all
sampling.
"""
