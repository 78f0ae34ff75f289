"""Simulation of an operator: random schedules, what must hold, and the smallest failing one."""
