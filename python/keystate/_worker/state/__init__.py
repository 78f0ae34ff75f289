"""The kinds of state, and timers: what a worker knows of them, and what it tells the JVM."""
