"""A stateful source's process: the methods that the JVM calls, and the source's instances.

``SourceStream`` on the JVM's side keeps the log; it calls the methods of a stream reader of Spark's
Python data source API, whose offsets and partitions carry the messages between the two:

- ``latestOffset({"begin": batch, "restored": header or null})`` starts the instances;
- ``latestOffset({})`` waits for rows, and says how many there are and whether all instances have
  ended or are idle;
- ``partitions({}, {"batch": n})`` ends batch n: a header with the state, then the rows of each
  instance that has any, as Arrow streams;
- ``commit({"batch": n})`` says that batch n is committed.

Spark 4.1 passes no arguments to ``latestOffset``. There ``commit({"request": ...})`` comes before
it, with these arguments.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from keystate._spec.specs import StateSpec
from keystate._worker.operator_state.operator_states import OperatorStates, Snapshot, redistribute
from keystate._worker.sources.instance import Instance
from keystate.errors import CheckpointError

_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class SourceSpec:
    """A source as the driver planned it.

    Attributes:
        function: the pickled function; every instance has a copy of its own.
        states: the operator states with whether they are union states.
        max_batch_duration: in seconds.
        pickles: what pickles in its state may name.
    """

    name: str
    function: bytes
    row_type: T.StructType
    states: tuple[tuple[StateSpec, bool], ...]
    parallelism: int
    max_rows_per_batch: int
    max_batch_duration: float
    pickles: tuple[str, ...] = ()


class StatefulDataSource(DataSource):
    """Carries a source to its process."""

    def __init__(self, source_spec: SourceSpec) -> None:
        super().__init__({})
        self.source_spec = source_spec

    def schema(self) -> T.StructType:
        """The rows' type."""
        return self.source_spec.row_type

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:
        """What the JVM calls."""
        return SourceReader(self.source_spec)


class SourceReader(DataSourceStreamReader):
    """The instances of a source, and the batches they are cut into."""

    def __init__(self, source_spec: SourceSpec) -> None:
        self._source_spec = source_spec
        self._instances: list[Instance] = []
        self._began = time.monotonic()  # when the current batch began
        self._stopping = False
        self._request: dict[str, Any] = {}  # for latestOffset of Spark 4.1
        # Spark ends this process with a signal, before it could close the connection.
        signal.signal(signal.SIGTERM, self._terminated)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Starts the instances, or reports how many rows they have."""
        if start is None:
            start = self._request
        if "begin" in start:
            self._begin(start["begin"], start["restored"])
            return {"rows": 0, "waiting": False}
        self._wait(self._began + self._source_spec.max_batch_duration)
        # Asked in this order: what has ended has its last rows, and its error.
        waiting = all(instance.is_waiting() for instance in self._instances)
        rows = sum(instance.rows() for instance in self._instances)
        for instance in self._instances:
            instance.check()
        if not rows:
            self._began = time.monotonic()
        return {"rows": rows, "waiting": waiting}

    def _wait(self, until: float) -> None:
        while not all(instance.is_full() for instance in self._instances):
            left = until - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, _POLL_SECONDS))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """Ends a batch."""
        now = int(time.time() * 1000)
        cuts = [instance.cut(end["batch"], now) for instance in self._instances]
        self._began = time.monotonic()
        header = {
            "batch": end["batch"],
            "time": now,
            "source": self._source_spec.name,
            "parallelism": len(cuts),
            "rows": [cut.rows for cut in cuts],
            "states": [cut.states for cut in cuts],
        }
        return [json.dumps(header).encode(), *(cut.data for cut in cuts if cut.rows)]

    def commit(self, end: dict[str, Any]) -> None:
        """Tells listeners that a batch counts."""
        if "request" in end:
            self._request = end["request"]
            return
        for instance in self._instances:
            instance.notify(end["batch"])

    def read(self, partition: InputPartition) -> NoReturn:
        """Rows are read from the log by the JVM."""
        raise NotImplementedError

    def stop(self) -> None:
        """Cancels the instances and waits for them, not for ever."""
        self._stopping = True
        for instance in self._instances:
            instance.cancel()
        deadline = time.monotonic() + _STOP_SECONDS
        for instance in self._instances:
            instance.close(deadline)

    def _begin(self, batch: int, restored: str | None) -> None:
        source_spec = self._source_spec
        states = _states_in(batch, restored) if restored is not None else []
        unions = {spec.name for spec, union in source_spec.states if union}
        specs = {spec.name: spec for spec, _ in source_spec.states}
        of = source_spec.parallelism
        for index, part in enumerate(redistribute(states, unions, of)):
            function = pickle.loads(source_spec.function)
            share = source_spec.max_rows_per_batch // of
            instance = Instance(source_spec.name, function, source_spec.row_type, index, of, share)
            self._instances.append(instance)
            known = batch if restored is not None else None
            of_all = {name: part.pop(name) for name in unions & part.keys()}
            if index == 0:
                part |= of_all
            own = OperatorStates(
                specs, known, part, of_all, index=index, pickles=source_spec.pickles
            )
            instance.open(own)
        for instance in self._instances:
            instance.start()
        self._began = time.monotonic()

    def _terminated(self, *_: Any) -> None:
        if self._stopping:  # for the connection was closed first; this process ends after that
            return
        try:
            self.stop()
        finally:
            os._exit(0)


def _states_in(batch: int, header: str) -> list[Snapshot]:
    """The states of the instances after a batch, in the header of its segment."""
    try:
        states = json.loads(header)["states"]
        for name, elements in [item for snapshot in states for item in snapshot.items()]:
            if not all(isinstance(element, str) for element in elements):
                raise TypeError(f"an element of '{name}' is no text")
    except Exception as e:
        raise CheckpointError(
            f"the header of the source's file {batch}.source can't be understood: "
            f"{type(e).__name__}: {e}. Restore the file, or start with a new checkpoint",
            code="KEYSTATE_CORRUPT_FILE",
        ) from e
    return list(states)
