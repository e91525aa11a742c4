"""Trunks that read the canvas, compared with the same trunk without it."""
