"""The event time of windows' results, for the next operator."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keystate._spec.specs import DELAY_KEY
from keystate._types.ddl import quoted


def with_window_time(results: DataFrame, name: str = "time") -> DataFrame:
    """Gives the results of windows a column of event time: the last millisecond of each window.

    It is what Flink gives to them. The next operator by event time goes by this column, so a result
    is counted in the window that has all of its window's times, and is not late there, for a
    window ends when the watermark reaches this time. What windows emit again for late rows is.

    >>> minutes = keyed.window(TumblingEventTimeWindows.of(60_000)).aggregate(F.sum("n"))
    >>> keystate.keyed(with_window_time(minutes), "user").window(...)

    Args:
        results: what ``aggregate`` of windows by event time returns, given columns, or any
            DataFrame with a timestamp column ``window_end``.
        name: of the new column, a timestamp. It replaces one of the same name.

    Returns:
        A DataFrame with the same columns, and this one as the last.
    """
    time = F.col("window_end") - F.expr("INTERVAL 1 MILLISECOND")
    others = [quoted(each) for each in results.columns if each != name]
    return results.select(*others, time.alias(name, metadata={DELAY_KEY: 0}))
