"""Micro-batches as traces of OpenTelemetry; needs ``pip install 'keystate[tracing]'``."""

from __future__ import annotations

from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer_provider,
    set_span_in_context,
)
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from keystate._jvm import bridge
from keystate.errors import code_in
from keystate.live.elastic.scaling import began_at

#: The phases of a micro-batch that Spark measures, in their order.
PHASES = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
#: The measured parts of a stateful operator's tasks, in their order.
PARTS = {
    "load state": "keystateLoadMs",
    "start worker": "keystateWorkerStartMs",
    "rows": "allUpdatesTimeMs",
    "commit state": "commitTimeMs",
}


def trace_batches(
    spark: SparkSession | None = None, *, tracer_provider: TracerProvider | None = None
) -> StreamingQueryListener:
    """Makes a trace of each micro-batch of all queries of a session, from now on.

    The trace's root is the micro-batch. Below it are its phases, and below ``addBatch`` the
    stateful operators with the parts of their tasks. Spark reports how long a phase took and not
    when it began. So each phase begins where the one before ended, and the length of an operator's
    part is the mean over its partitions. Numbers of the progress are attributes. A query that ends
    with an error has a trace of its own.

    Args:
        spark: the session; by default the active one. Over Spark Connect too.
        tracer_provider: makes the spans; by default OpenTelemetry's global provider.

    Returns:
        The listener: ``spark.streams.removeListener`` ends it.

    Raises:
        ConfigurationError: there is no active session.
    """
    session = bridge.session_or_active(spark, "keystate.tracing.trace_batches")
    listener = _Traces(tracer_provider or get_tracer_provider())
    session.streams.addListener(listener)
    return listener


class _Traces(StreamingQueryListener):
    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("keystate")
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:
        self._names[str(event.runId)] = event.name or str(event.id)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        name = self._names.pop(str(event.runId), str(event.id))
        if not event.exception:
            return
        query = {"query.name": name, "query.id": str(event.id), "query.run_id": str(event.runId)}
        span = self._tracer.start_span("query failed", attributes=query)
        if code := code_in(event.exception):
            span.set_attribute("error.type", code)
        span.set_status(Status(StatusCode.ERROR, event.exception))
        span.end()

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        durations = {name: ms * 1_000_000 for name, ms in progress.durationMs.items()}
        if "addBatch" not in durations:
            return  # it had nothing to do
        at = int(began_at(progress).timestamp() * 1000) * 1_000_000
        end = at + durations["triggerExecution"]
        batch = self._span(
            "micro-batch",
            None,
            at,
            {
                "query.name": progress.name or str(progress.id),
                "query.id": str(progress.id),
                "query.run_id": str(progress.runId),
                "batch.id": progress.batchId,
                "batch.input_rows": progress.numInputRows,
                "batch.processed_rows_per_second": progress.processedRowsPerSecond,
            },
        )
        for phase in PHASES:
            until = min(at + durations.get(phase, 0), end)
            if phase in durations:
                span = self._span(phase, batch, at)
                if phase == "addBatch":
                    for number, operator in enumerate(progress.stateOperators):
                        self._operator(number, operator, span, at, until)
                span.end(until)
            at = until
        batch.end(end)

    def _operator(self, number: int, operator: Any, parent: Span, at: int, end: int) -> None:
        numbers = {
            "numRowsTotal": operator.numRowsTotal,
            "numRowsUpdated": operator.numRowsUpdated,
            "numRowsRemoved": operator.numRowsRemoved,
            "numShufflePartitions": operator.numShufflePartitions,
            "memoryUsedBytes": operator.memoryUsedBytes,
            "allUpdatesTimeMs": operator.allUpdatesTimeMs,
            "commitTimeMs": operator.commitTimeMs,
            **operator.customMetrics,
        }
        attributes = {f"operator.{name}": value for name, value in numbers.items()}
        attributes["operator.number"] = number
        span = self._span(operator.operatorName, parent, at, attributes)
        for part, metric in PARTS.items():
            if metric in numbers:
                mean = numbers[metric] * 1_000_000 // max(operator.numShufflePartitions, 1)
                until = min(at + mean, end)
                self._span(part, span, at).end(until)
                at = until
        span.end(end)

    def _span(
        self, name: str, parent: Span | None, at: int, attributes: dict[str, Any] | None = None
    ) -> Span:
        # A span without a parent must not become a child of the span of the caller's thread.
        context = set_span_in_context(parent) if parent else Context()
        return self._tracer.start_span(name, context, attributes=attributes, start_time=at)
