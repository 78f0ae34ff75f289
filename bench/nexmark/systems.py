"""The systems that are compared: each a process of its own that runs queries when it is asked to.

It is asked `{"query": "q3", "folder": "..."}` and answers with `seconds`, and with what it knows of
`batch_ms`, `emitted` and `cores`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bench.nexmark.spark_system import WAYS

PEERS = "bench.nexmark.peers"


@dataclass(frozen=True)
class System:
    """A system, and which part of the events it gets for each of its queries."""

    name: str
    command: tuple[str, ...]
    shares: dict[str, float]


def spark_systems() -> list[System]:
    """Those that need nothing but what Keystate's benchmarks do."""
    return [
        System(
            name,
            (sys.executable, "-m", "bench.nexmark.spark_system", name),
            {query: way.share for query, way in ways.items()},
        )
        for name, ways in WAYS.items()
    ]


def bytewax(python: str) -> System:
    """Bytewax, in a Python that has it."""
    shares = dict.fromkeys(("q3", "q11", "q18", "q19", "q20"), 0.2)
    return System("Bytewax", (python, "-m", f"{PEERS}.with_bytewax"), shares)


def pyflink(python: str) -> System:
    """PyFlink, in a Python that has it."""
    shares = dict.fromkeys(("q3", "q18", "q19"), 0.1)
    return System("PyFlink, threads", (python, "-m", f"{PEERS}.with_pyflink"), shares)


def quix(python: str, broker: str) -> System:
    """Quix Streams, in a Python that has it, on a broker of Kafka."""
    # Whenever a session ends, it looks at those of all keys.
    shares = {**dict.fromkeys(("q3", "q18", "q19", "q20"), 0.2), "q11": 0.05}
    return System("Quix Streams", (python, "-m", f"{PEERS}.with_quix", broker), shares)
