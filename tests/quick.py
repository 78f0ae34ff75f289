"""JVMs of programs that tests start: they live for a minute, and should start quickly."""

from __future__ import annotations

OPTIONS = "-XX:TieredStopAtLevel=1"

#: For the environment of a program that makes a session.
ENVIRONMENT = {"SPARK_SUBMIT_OPTS": OPTIONS}
