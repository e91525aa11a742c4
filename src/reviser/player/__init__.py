"""Playback of rollouts: in a terminal and on a page."""
