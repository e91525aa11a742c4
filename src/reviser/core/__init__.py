"""Actions, canvas, mask, text and trajectories: everything that is new, without torch."""
