"""What a checkpoint holds: read, looked up and written, as DataFrames or one key at a time."""
