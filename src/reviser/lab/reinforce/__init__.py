"""Reinforcement learning: rollouts of the engine, rewards, and TRL's GRPO on masked actions."""
