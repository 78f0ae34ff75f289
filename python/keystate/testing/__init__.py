"""Runs a function with state by hand: without Spark, with clocks that only the test moves.

>>> with KeyedProcessHarness(Totals(), "key string, amount long", "key", "total long") as harness:
...     assert harness.process(("a", 3)) == [(3,)]
"""

from keystate._types.canonical import same as same_values
from keystate.testing._harness import KeyedProcessHarness
from keystate.testing._short import rows_of
from keystate.testing._simulate import Simulation, SimulationFailure, simulate
from keystate.testing._snapshot import Snapshot
from keystate.testing._two_inputs import KeyedTwoInputHarness

__all__ = [
    "KeyedProcessHarness",
    "KeyedTwoInputHarness",
    "Simulation",
    "SimulationFailure",
    "Snapshot",
    "rows_of",
    "same_values",
    "simulate",
]
