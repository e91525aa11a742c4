"""Experiments behind the figures in the documentation, one folder per question."""
