"""A stateful source: its process and the instances that run in it."""
