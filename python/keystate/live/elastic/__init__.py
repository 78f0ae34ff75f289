"""Queries whose number of partitions follows their load."""
