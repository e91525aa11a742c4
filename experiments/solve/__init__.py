"""Solved by editing: tasks that small models solve when they may take back what they wrote."""
