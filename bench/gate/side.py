"""A process with a session of one Keystate, which measures what it is asked to: see __main__.py.

It prints which Keystate that is, for a clone is easily mistaken for another.
"""

from __future__ import annotations

from typing import Any

import keystate

from bench.children import serve
from bench.gate.cases import CASES
from bench.session import bench_session


def main() -> None:
    with bench_session() as (spark, work):

        def answer(asked: dict[str, str]) -> dict[str, Any]:
            case = CASES[asked["case"]]
            measured = case.yardstick if "yardstick" in asked else case.keystate
            assert measured is not None
            return {"seconds": measured(spark, work), "keystate": keystate.__file__}

        serve(answer)


if __name__ == "__main__":
    main()
