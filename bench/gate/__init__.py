"""Whether a commit made something slower."""
