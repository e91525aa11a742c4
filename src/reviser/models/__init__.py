"""Models: trunks, adaptation, the hub, released checkpoints and model descriptions."""

from reviser._moved import moved_names

__getattr__ = moved_names("reviser.models", "reviser.models.trunks", "reviser.models.adaptation")
