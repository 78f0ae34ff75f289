"""The worker's side of the simulated conversation; `docs/simulation.md` says what it is.

The Scala tests of `org.apache.spark.sql.keystate.python.simulation` start `worker.py`.
"""
