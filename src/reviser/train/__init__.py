"""Training: from a recipe to a model folder, with the Trainer, Accelerate and FSDP."""
