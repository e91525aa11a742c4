"""Playback of rollouts: in a terminal, on a page, and as a GIF."""
