"""One instance of a source: the user's function in a thread, and the rows it has collected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec import Misfit, shorten, struct_codec
from keystate._worker.calls.function_errors import function_error
from keystate._worker.messages.results import row_test
from keystate._worker.operator_state.operator_states import OperatorStates, Snapshot
from keystate.errors import DeclarationError, KeystateError, OutputTypeError
from keystate.functions import CheckpointListener, RuntimeContext
from keystate.functions.subtask import Subtask
from keystate.state import StateDescriptor

_ROWS_PER_ARROW_BATCH = 10_000


@dataclass(frozen=True)
class Cut:
    """An instance's part of a batch: rows as an Arrow stream, and the states after them."""

    rows: int
    data: bytes
    states: Snapshot


class CheckpointLock:
    """Held while rows are collected and the state is changed that says so.

    Entering it waits for room in the batch; within it there is always room, for a snapshot between
    the first and the last statement of a block would tear them apart.
    """

    def __init__(self, share: int) -> None:
        self.rows: list[Any] = []
        self.cancelled = False
        self._share = share
        self._condition = threading.Condition(threading.RLock())
        self._depth = 0
        self._snapshots = 0  # that are waiting: a function in a tight loop lets them pass

    def __enter__(self) -> CheckpointLock:
        self._condition.acquire()
        while not self._depth and not self.cancelled and self._is_full():
            self._condition.wait()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._condition.release()

    def _is_full(self) -> bool:
        return len(self.rows) >= self._share or self._snapshots > 0

    @contextmanager
    def for_snapshot(self) -> Iterator[None]:
        """Holds the lock without waiting for room, and makes room."""
        self._snapshots += 1
        with self._condition:
            self._snapshots -= 1
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                self._condition.notify_all()

    def cancel(self) -> None:
        """From now on nothing waits, and what is collected is dropped."""
        with self.for_snapshot():
            self.cancelled = True


class Instance:
    """One of the parallel instances of a source."""

    def __init__(
        self, name: str, function: Any, row_type: T.StructType, index: int, of: int, share: int
    ) -> None:
        self._function = function
        self._name = f"{name} ({index + 1}/{of})"
        self._runtime = _SourceRuntimeContext(name, index, of)
        self._lock = CheckpointLock(share)
        self._share = share
        self._output = struct_codec(row_type)
        self._bare = len(row_type.fields) == 1
        self._is_row = row_test(row_type)
        self._take = self._output.taker(self._taken)
        self._schema = pa.schema(self._output.arrow)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._states: OperatorStates | None = None
        self._idle = False
        self._ended = False
        self._error: BaseException | None = None

    # -- what the reader calls ------------------------------------------------------------------

    def open(self, states: OperatorStates) -> None:
        """Gives the function its state and opens it."""
        self._states = states
        self._guard(lambda: states.initialize(self._function))
        self._guard(lambda: self._function.open(self._runtime))

    def start(self) -> None:
        """Starts the function's thread."""
        self._thread.start()

    def rows(self) -> int:
        """How many rows there are for the next batch."""
        return len(self._lock.rows)

    def is_full(self) -> bool:
        """Whether there will be no more rows for the next batch."""
        return self._ended or len(self._lock.rows) >= self._share

    def is_waiting(self) -> bool:
        """Whether it has returned or said that it is idle."""
        return self._ended or self._idle

    def check(self) -> None:
        """Raises what the function raised."""
        if self._error is not None:
            self._blame(self._error)

    def cut(self, batch: int, now: int) -> Cut:
        """Takes the rows, and the states after them."""
        assert self._states is not None
        states: Snapshot = {}
        with self._lock.for_snapshot():
            rows, self._lock.rows = self._lock.rows, []
            snapshot, function = self._states.snapshot, self._function
            self._guard(lambda: states.update(snapshot(function, batch, now)))
        return Cut(len(rows), self._encode(rows), states)

    def notify(self, batch: int) -> None:
        """Tells the function that a batch counts."""
        function = self._function
        if isinstance(function, CheckpointListener):
            with self._lock.for_snapshot():
                self._guard(lambda: function.notify_checkpoint_complete(batch))

    def cancel(self) -> None:
        """Makes the function return."""
        self._lock.cancel()
        self._guard(self._function.cancel)

    def close(self, deadline: float) -> None:
        """Waits for the function to return, and closes it then."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()))
        if not self._thread.is_alive():
            self._guard(self._function.close)

    # -- what the function calls ----------------------------------------------------------------

    def collect(self, row: Any) -> None:
        """Emits a row, as it is now."""
        taken = self._take(row)
        with self._lock as lock:
            if not lock.cancelled:
                lock.rows.append(taken)
            self._idle = False

    def get_checkpoint_lock(self) -> CheckpointLock:
        """The lock under which snapshots are taken."""
        return self._lock

    def mark_as_temporarily_idle(self) -> None:
        """Tells that there are no rows now."""
        self._idle = True

    # -- within ---------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._function.run(self)
        except BaseException as e:
            self._error = e
        self._ended = True

    def _taken(self, row: Any) -> Any:
        if self._bare and not self._is_row(row):
            row = (row,)
        try:
            if row is None:
                raise Misfit(None, self._output.name)
            return self._output.as_read(row)
        except Misfit as e:
            raise self._misfit(e) from None

    def _misfit(self, error: Misfit) -> OutputTypeError:
        return OutputTypeError(
            f"a row of source {self._name} does not fit its schema {shorten(self._output.name)}: "
            f"{error}"
        )

    def _encode(self, rows: list[Any]) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            for at in range(0, len(rows), _ROWS_PER_ARROW_BATCH):
                part = rows[at : at + _ROWS_PER_ARROW_BATCH]
                if self._bare:
                    part = [row if self._is_row(row) else (row,) for row in part]
                try:
                    columns = self._output.encode_columns(part)
                except Misfit as e:
                    raise self._misfit(e) from None
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def _guard(self, call: Callable[[], None]) -> None:
        """Runs the user's code; an error of it is reported with its own traceback first."""
        try:
            call()
        except Exception as e:
            self._blame(e)

    def _blame(self, error: BaseException) -> NoReturn:
        if isinstance(error, KeystateError):
            raise error
        raise function_error(error, f"in source {self._name}") from None


class _SourceRuntimeContext(RuntimeContext):
    """The runtime context that a source gets in ``open``."""

    def __init__(self, name: str, index: int, of: int) -> None:
        self._subtask = Subtask(name, of, of, index)

    def _provide(self, descriptor: StateDescriptor) -> Any:
        raise DeclarationError(
            f"state '{descriptor.name}': a source has no keyed state; get operator state in "
            "initialize_state()"
        )
