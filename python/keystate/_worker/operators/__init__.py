"""Operators at work in a subtask: messages in, answers out, the function called between."""
