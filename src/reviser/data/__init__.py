"""Data: text files, pairs and git history to token shards, examples and micro-batches."""
