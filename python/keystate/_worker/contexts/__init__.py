"""Contexts of a function: the runtime context in ``open``, the context of each row."""
