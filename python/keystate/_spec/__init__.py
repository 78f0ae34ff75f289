"""What driver, worker and JVM agree on: operators with their states, and the names in messages."""
