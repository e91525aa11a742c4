"""Rollouts in, numbers with intervals out: how a model writes, what it costs, how well it does."""
