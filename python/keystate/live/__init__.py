"""A query while it runs: canaries, elastic partitions, stops, replays, traces."""
