"""Derive training trajectories from text: policies, sampling, alignment of two texts and costs."""
