"""Experiments that produce the figures in the documentation, one folder per question."""
