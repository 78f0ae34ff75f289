"""Changes the partitions of a query in real-time mode while rows come, and prints what it has then.

The stages of a batch run at the same time, so this needs more cores than the tests' own session.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import keystate

from tests.fault import sessions
from tests.fault.real_time_query import begin, feed
from tests.query.test_real_time import state
from tests.real_time import MIN_DURATION, Source, lines, wait_for

PARTITIONS = (2, 1, 3)


def main() -> None:
    folder = Path(sys.argv[1])
    spark = sessions.create("local[4]", 1, **{MIN_DURATION: "100"})
    source = Source(spark)
    threading.Thread(target=feed, args=(source, folder, 100_000), daemon=True).start()
    noted = folder / "noted"

    def start() -> Any:
        return begin(spark, source, folder, "1 second")

    query = keystate.elastic(start, spark=spark)
    try:
        for partitions in PARTITIONS:
            before = len(lines(noted))
            wait_for(query, lambda before=before: len(lines(noted)) > before + 20)
            assert query.rescale(partitions).error is None
        (folder / "enough").touch()
        wait_for(query, (folder / "fed").exists)
        ((fed,),) = lines(folder / "fed")
        wait_for(query, lambda: len({x for _, _, x in lines(noted)}) == fed)
        last = query.lastProgress.batchId
        wait_for(query, lambda: query.lastProgress.batchId > last)
        changes = [(change.before, change.after) for change in query.rescales]
    finally:
        query.stop()
    print(
        json.dumps({"fed": fed, "changes": changes, "state": sorted(state(spark, folder).items())})
    )
    spark.stop()


if __name__ == "__main__":
    main()
