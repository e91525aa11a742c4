"""How a model should be stored for the browser."""
