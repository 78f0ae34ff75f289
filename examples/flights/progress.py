"""One line per micro-batch while the query runs."""

from datetime import datetime, timedelta, timezone

import keystate
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from .prepare import NEW_YORK

_HEADER = f"{'batch':>5}  {'departures to':13}  {'flights':>8}  {'flights/s':>9}  " + (
    f"{'minutes carried':>15}  {'entries in state':>16}"
)


def follow(query: StreamingQuery, stop_after: int | None = None) -> None:
    """Prints progress until the query ends; raises what it failed with.

    Args:
        query: the query.
        stop_after: stop it once so many micro-batches are committed.
    """
    print(_HEADER)
    shown = -1
    running = True
    while running:
        if stop_after is not None and shown + 1 >= stop_after:
            keystate.stop_after_batch(query)
        running = not query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress.batchId > shown and progress.numInputRows:
                shown = progress.batchId
                print(_line(progress), flush=True)


def _line(progress: StreamingQueryProgress) -> str:
    observed = progress.observedMetrics["legs"]
    reached = datetime.fromtimestamp(observed["minute"] * 60, timezone.utc) + timedelta(
        minutes=NEW_YORK
    )
    entries = sum(operator.numRowsTotal for operator in progress.stateOperators)
    speed = observed["flights"] * 1000 / progress.batchDuration
    return (
        f"{progress.batchId:5}  {reached:%a %d %b %Y}  {observed['flights']:8,}  "
        f"{speed:9,.0f}  {observed['carried'] or 0:15,}  {entries:16,}"
    )
