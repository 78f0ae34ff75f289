"""Calls into a JVM: that of a classic session, of a Spark Connect server, or one without Spark."""
