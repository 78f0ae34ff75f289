"""Messages between JVM and worker: rows, answers, and questions on the side channel."""
