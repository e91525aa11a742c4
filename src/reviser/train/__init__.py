"""From a recipe to a trained model folder; Trainer, Accelerate and FSDP do the work."""
