"""Trunks of causal language models: build, adapt, save, load, convert and describe them."""
