"""Reads, looks up and writes the content of checkpoints, as DataFrames or one key at a time."""
