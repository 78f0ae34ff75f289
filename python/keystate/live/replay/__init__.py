"""Runs a micro-batch of a query again for one key, in the caller's process."""
