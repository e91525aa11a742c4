"""Watching a text being written."""
