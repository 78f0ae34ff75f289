"""Elements of any type as bytes that run no code when they are read."""
