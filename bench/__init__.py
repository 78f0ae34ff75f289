"""Benchmarks against what else a PySpark user has: see README.md."""
