"""Rollouts in, numbers with intervals out."""
