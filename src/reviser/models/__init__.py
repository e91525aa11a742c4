"""Models: trunks, adaptation, the hub, released checkpoints and model descriptions."""
