"""Streams: where a DataFrame meets a function with state."""
