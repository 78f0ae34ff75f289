"""The kinds of state, and timers: a worker's copies of them, and its messages to the JVM."""
