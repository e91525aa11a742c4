"""Trunks of causal language models: build, adapt, save, load, convert and describe them."""

from reviser._moved import moved_names

__getattr__ = moved_names("reviser.models", "reviser.models.trunks")
