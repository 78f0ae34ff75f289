"""Calls a :class:`~keystate.sinks.TwoPhaseCommitSink`."""

from __future__ import annotations

import uuid
from typing import Generic, TypeVar

from pyspark.taskcontext import TaskContext

from keystate.errors import DeclarationError
from keystate.functions import (
    CheckpointedFunction,
    CheckpointListener,
    Context,
    Counter,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)
from keystate.functions.two_phase import TwoPhaseCommitSink
from keystate.state import ListState, ListStateDescriptor

IN = TypeVar("IN")
TXN = TypeVar("TXN")

#: Metrics in the query's progress; the JVM asks for a micro-batch after one with prepared ones.
PREPARED, COMMITTED = "transactionsPrepared", "transactionsCommitted"
RECOVERED, ABORTED = "transactionsRecovered", "transactionsAborted"

_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class CommittingFunction(
    SinkFunction[IN], CheckpointedFunction, CheckpointListener, Generic[IN, TXN]
):
    """A :class:`TwoPhaseCommitSink` as a function with operator state.

    The state that an instance restores is that of the last micro-batch in the commit log, and it
    hears of its own micro-batch once that is in the log.
    """

    def __init__(self, sink: TwoPhaseCommitSink[IN, TXN]) -> None:
        self._sink = sink
        self._open: TXN | None = None
        self._prepared: list[TXN] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state: ListState[TXN] = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("transactions", self._sink.transaction_type)
        )
        restored = context.get_restored_checkpoint_id()
        self._last = -1 if restored is None else restored
        self._restored: list[TXN] = list(self._state.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        self._ids = _TransactionIds(runtime_context.get_index_of_this_subtask())
        group = runtime_context.get_metrics_group()
        self._counts: dict[str, Counter] = {
            name: group.counter(name) for name in (PREPARED, COMMITTED, RECOVERED, ABORTED)
        }
        self._sink.open(runtime_context)
        for transaction in self._restored:
            self._sink.recover_and_commit(transaction)
            self._counts[RECOVERED].inc()
        self._end_others()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for transaction in self._prepared:
            self._sink.commit(transaction)
            self._counts[COMMITTED].inc()
        self._prepared = []
        self._end_others()

    def _end_others(self) -> None:
        """Ends what is prepared and does not count."""
        if not self._ids.is_first:
            return
        found = self._sink.prepared_transactions(self._ids.prefix)
        for transaction_id, transaction in found.items():
            if self._ids.is_dead(transaction_id, self._last):
                self._sink.recover_and_abort(transaction)
                self._counts[ABORTED].inc()

    def invoke(self, value: IN, context: Context) -> None:
        if self._open is None:
            self._open = self._sink.begin_transaction(self._ids.make(self._last))
        self._sink.invoke(self._open, value, context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if self._open is not None:
            self._sink.pre_commit(self._open)
            self._prepared.append(self._open)
            self._open = None
            self._counts[PREPARED].inc()
        self._state.update(self._prepared)
        self._last = context.get_checkpoint_id()

    def close(self) -> None:
        if self._open is not None:
            self._sink.abort(self._open)
        self._sink.close()


class _TransactionIds:
    """The ids of transactions: ``keystate.QUERY.AFTER.SUBTASK.OWNER.UNIQUE``.

    AFTER is the last micro-batch that counted when the transaction began. OWNER is the checkpoint's
    owner, ``CHECKPOINT-NUMBER``: a later one has a higher number.
    """

    def __init__(self, subtask: int) -> None:
        task = TaskContext.get()

        def told(name: str) -> str | None:
            return None if task is None else task.getLocalProperty(name)

        if task is not None and told(_FORMAT) != "2":
            raise DeclarationError(
                f"a TwoPhaseCommitSink needs {_FORMAT}=2, which a query can change to at a restart"
            )
        self._subtask = subtask
        self._owner = told("keystate.owner") or "none-0"
        self.prefix = f"keystate.{told('sql.streaming.queryId')}."
        self.is_first = subtask == 0 and task is not None

    def make(self, last: int) -> str:
        """The id of a transaction that begins after this micro-batch."""
        return f"{self.prefix}{last}.{self._subtask}.{self._owner}.{uuid.uuid4().hex[:12]}"

    def is_dead(self, transaction_id: str, last: int) -> bool:
        """Whether a prepared transaction can't count any more.

        What counts of the last micro-batch is being committed by all subtasks now; what counted
        before is committed. Of the current one only attempts of an earlier owner are dead: those of
        this owner may still count.
        """
        try:
            after, _, owner, _ = transaction_id.removeprefix(self.prefix).split(".")
            checkpoint, _, number = owner.rpartition("-")
            mine, _, own_number = self._owner.rpartition("-")
            if int(after) == last:
                return checkpoint == mine and int(number) < int(own_number)
            return int(after) < last - 1
        except ValueError:
            return False  # somebody else's
