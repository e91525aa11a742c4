"""Turn texts into tasks for an engine, and what the engine writes into results."""
