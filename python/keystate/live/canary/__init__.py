"""What a canary is made of: the fork, how the two queries are compared, and the report."""
