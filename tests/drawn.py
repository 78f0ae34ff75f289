"""What a test run draws: of cases that take long and differ in little it runs some, SLOW=1 all.

Runs together come to all of them. A run prints the number that it draws by; KEYSTATE_DRAW=NUMBER
draws the same again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

# In the environment before xdist starts its processes: all of them have to draw the same.
DRAW = os.environ.setdefault("KEYSTATE_DRAW", str(random.randrange(1000)))


def drawn(what: str, cases: Iterable[T], count: int) -> list[T]:
    """So many of the cases, in their order; with SLOW=1 all of them.

    Args:
        what: names the draw. Those of other names do not depend on it.
        cases: what there is to draw from.
        count: how many to draw.
    """
    there = list(cases)
    if os.environ.get("SLOW"):
        return there
    chosen = random.Random(f"{DRAW} {what}").sample(range(len(there)), count)
    return [there[i] for i in sorted(chosen)]
