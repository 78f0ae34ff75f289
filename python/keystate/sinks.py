"""Sinks that write exactly once into systems with transactions."""

from keystate.functions.two_phase import TwoPhaseCommitSink

__all__ = ["TwoPhaseCommitSink"]
