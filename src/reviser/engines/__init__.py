"""Engines: histories in, action ids out."""
