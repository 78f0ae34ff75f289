"""Features of event time: timers, windows, late rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keystate import KeyedProcessFunction, OutputTag, ValueStateDescriptor
from keystate.windows import ProcessWindowFunction, TumblingEventTimeWindows
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.matrix.feature import Model, Place, shown
from tests.matrix.flow import INPUT, OUTPUT, Batch, Row, result

#: How long a timer waits, and a window lasts, in ms: micro-batches are twice as far apart.
LATER = 50_000


def with_late(made: Any, late: OutputTag, place: Place) -> DataFrame:
    rows = [F.col(f"late.{name}") for name in ("k", "i", "x", "at")]
    rows += [F.lit("late output").alias("feature"), F.lit("").alias("what")]
    one = F.coalesce("main", F.struct(*rows, F.lit(None).cast("string").alias("id")))
    df: DataFrame = made.with_side_outputs(late).select(one.alias("one")).select("one.*")
    return df


class Timers(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + LATER)
        yield result(row, "rows beside timers", self.n.value())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield (ctx.get_current_key(), timestamp, None, None, "timers", str(self.n.value()), None)


def timers(df: DataFrame, place: Place) -> DataFrame:
    late = OutputTag("late", INPUT)
    timed = place.keyed(df.withWatermark("at", "0 seconds"))
    return with_late(timed.process(Timers(), OUTPUT, late_output=late), late, place)


class TimersModel(Model):
    def batch(self, batch: Batch) -> list[Row]:
        made = super().batch(batch)
        on_time = [row for row in made if row.at is not None and row.at > batch.late]
        for row in on_time:
            state = self.state[row.k]
            state["n"] = state.get("n", 0) + 1
            state.setdefault("timers", set()).add((row.at or 0) + LATER)
        # Several rows of a key in a micro-batch: each has its own count.
        counts: dict[str, int] = {}
        for row in on_time:
            counts[row.k] = counts.get(row.k, 0) + 1
        emitted, seen = [], dict[str, int]()
        for row in on_time:
            seen[row.k] = seen.get(row.k, 0) + 1
            n = self.state[row.k]["n"] - counts[row.k] + seen[row.k]
            emitted.append(shown(row, "rows beside timers", n))
        emitted += [shown(row, "late output", "") for row in made if row not in on_time]
        for key, state in self.state.items():
            for due in sorted(t for t in state.get("timers", ()) if t <= batch.watermark):
                state["timers"].remove(due)
                emitted.append(Row(key, due, None, None, "timers", str(state["n"])))
        return emitted

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        yield row


class Numbers(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        numbers = sorted(row.i for row in elements)
        yield key, context.window().start, None, None, "windows", str(numbers), None


def windows(df: DataFrame, place: Place) -> DataFrame:
    late = OutputTag("late", INPUT)
    rows = place.keyed(df.withWatermark("at", "0 seconds"))
    made = rows.window(TumblingEventTimeWindows.of(LATER)).side_output_late_data(late)
    return with_late(made.process(Numbers(), OUTPUT), late, place)


class WindowsModel(Model):
    def batch(self, batch: Batch) -> list[Row]:
        made = super().batch(batch)
        emitted = [shown(row, "late output", "") for row in made]
        for key, opened in self.state.items():
            for start in sorted(s for s in opened if s + LATER - 1 <= batch.watermark):
                numbers = sorted(opened.pop(start))
                emitted.append(Row(key, start, None, None, "windows", str(numbers)))
        self._late = batch.watermark
        return emitted

    _late = 0

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        assert row.at is not None
        start = row.at // LATER * LATER
        if start + LATER - 1 <= self._late:
            yield row
        else:
            state.setdefault(start, []).append(row.i)
