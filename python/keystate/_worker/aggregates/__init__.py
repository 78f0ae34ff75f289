"""Aggregates of columns: of which types they are, and how they are computed."""
