"""Canaries: the fork, the comparison of the two queries, and the report."""
