"""Spark SQL types without a running Spark: as text, and their values' order, hash and JSON."""
