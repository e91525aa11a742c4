"""Text to token shards, and shards to examples that a model trains on."""
