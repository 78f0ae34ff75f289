"""Micro-batches as traces of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
import pyspark
import pytest
from keystate._types.waiting import wait_until
from keystate.tracing import PARTS, PHASES, trace_batches
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

#: Spark 4.1 tells no times of its workers.
UNTOLD = {"start worker"} if pyspark.__version__.startswith("4.1.") else set()
TOLD = [part for part in PARTS if part not in UNTOLD]


@pytest.fixture
def exporter(spark: Any) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    listener = trace_batches(spark, tracer_provider=provider)
    # What the caller traces itself has nothing to do with it.
    with trace.use_span(provider.get_tracer("test").start_span("mine"), end_on_exit=False):
        yield exporter
    spark.streams.removeListener(listener)


class Count(keystate.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(keystate.ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1 // row.value)
        yield row.key, self.count.value()


def run(spark: Any, folder: Path, values: list[int]) -> Any:
    """A query of a micro-batch for each value."""
    for number, value in enumerate(values):
        (folder / "input").mkdir(exist_ok=True)
        (folder / "input" / f"{number}.csv").write_text(f"1,{value}\n2,{value}\n")
    rows = spark.readStream.schema("key long, value long").option("maxFilesPerTrigger", "1")
    return (
        keystate.keyed(rows.csv(str(folder / "input")), "key")
        .process(Count(), "key long, count long")
        .writeStream.format("noop")
        .queryName(folder.name)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def wait_for(exporter: InMemorySpanExporter, name: str, number: int) -> list[ReadableSpan]:
    """Listeners are told a little later."""

    def enough() -> list[ReadableSpan]:
        spans = [span for span in exporter.get_finished_spans() if span.name == name]
        return spans if len(spans) >= number else []

    return wait_until(enough, f"{number} spans {name}")


def test_a_trace_for_each_micro_batch(
    spark: Any, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    query = run(spark, tmp_path, [1, 1])
    query.awaitTermination()
    batches = wait_for(exporter, "micro-batch", 2)
    assert [batch.attributes["batch.id"] for batch in batches] == [0, 1]
    for batch, progress in zip(batches, query.recentProgress, strict=True):
        assert batch.parent is None
        assert batch.attributes["query.name"] == tmp_path.name
        assert batch.attributes["query.id"] == str(query.id)
        assert batch.attributes["batch.input_rows"] == 2
        assert batch.end_time - batch.start_time == progress.durationMs["triggerExecution"] * 10**6
        of_batch = [
            s for s in exporter.get_finished_spans() if s.context.trace_id == batch.context.trace_id
        ]
        below = {span.name: span for span in of_batch}
        assert set(below) == {"micro-batch", *PHASES, *TOLD, "transformWithStateInPySparkExec"}
        assert len(below) == len(of_batch)
        for name, span in below.items():
            assert batch.start_time <= span.start_time <= span.end_time <= batch.end_time
            if name in PHASES:
                assert span.parent == batch.context
                assert span.end_time - span.start_time <= progress.durationMs[name] * 10**6
        operator = below["transformWithStateInPySparkExec"]
        assert operator.parent == below["addBatch"].context
        assert operator.attributes["operator.numRowsTotal"] == 2
        assert "operator.keystateBytesWritten" in operator.attributes
        assert all(below[part].parent == operator.context for part in TOLD)


def test_a_query_that_fails(spark: Any, exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="division"):
        run(spark, tmp_path, [1, 0]).awaitTermination()
    (failed,) = wait_for(exporter, "query failed", 1)
    assert failed.attributes["query.name"] == tmp_path.name
    assert failed.attributes["error.type"] == "KEYSTATE_FUNCTION_FAILED"
    assert not failed.status.is_ok and "division" in failed.status.description
