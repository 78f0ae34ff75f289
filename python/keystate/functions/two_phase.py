"""Sinks that prepare what they write with a micro-batch, and commit it once the batch counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from keystate.functions.base import Function
from keystate.functions.contexts import Context
from keystate.state import TypeLike

IN = TypeVar("IN")
TXN = TypeVar("TXN")


class TwoPhaseCommitSink(Function, ABC, Generic[IN, TXN]):
    """A sink for a system that prepares transactions and commits them later, for ``add_sink``.

    A subtask writes its part of a micro-batch in a transaction, and prepares it. What was prepared
    is in the checkpoint with the micro-batch. Once Spark's commit log has the micro-batch, it is
    committed: when the next one begins, which Keystate asks for even without input, or after a
    restart. What was prepared for a micro-batch that does not count is never committed.

    It needs version 2 of the checkpoint format
    (``spark.sql.streaming.stateStore.checkpointFormatVersion``): with version 1 an attempt that
    Spark took for lost can replace what another one has recorded.

    Attributes:
        transaction_type: the type of a transaction, in a form that can be stored: DDL, DataType or
            dataclass.
    """

    transaction_type: ClassVar[TypeLike] = "string"

    @abstractmethod
    def begin_transaction(self, transaction_id: str) -> TXN:
        """Begins a transaction, and returns what names it.

        Args:
            transaction_id: unique; letters, digits, ``.`` and ``-``, fewer than 150. Name the
                transaction by it if :meth:`prepared_transactions` is to find it.
        """

    @abstractmethod
    def invoke(self, transaction: TXN, value: IN, context: Context) -> None:
        """Writes a row in a transaction."""

    @abstractmethod
    def pre_commit(self, transaction: TXN) -> None:
        """Prepares a transaction: from now on any process can commit it, whatever dies."""

    @abstractmethod
    def commit(self, transaction: TXN) -> None:
        """Commits a transaction that was prepared. It may be called again for the same one."""

    @abstractmethod
    def abort(self, transaction: TXN) -> None:
        """Ends a transaction that must not be committed."""

    def recover_and_commit(self, transaction: TXN) -> None:
        """Commits a transaction that an earlier process prepared, if that is not yet done.

        Raise an error where you can tell that it was aborted: its rows are lost.
        """
        self.commit(transaction)

    def recover_and_abort(self, transaction: TXN) -> None:
        """Ends a transaction that an earlier process prepared."""
        self.abort(transaction)

    def prepared_transactions(self, prefix: str) -> Mapping[str, TXN]:
        """The transactions that are prepared, by their ids, with such a prefix.

        Called in the first subtask of each micro-batch, so that Keystate ends those of attempts
        that did not count. Without it they stay prepared.
        """
        return {}
