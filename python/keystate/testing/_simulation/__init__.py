"""Simulation of an operator: random schedules, invariants, and the smallest failing schedule."""
