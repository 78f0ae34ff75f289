"""Builders of checkpoints from DataFrames or another checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keystate._jvm import bridge
from keystate._jvm.written import arguments
from keystate.checkpoints.operator_draft import OperatorDraft, new_operator, stored_operator
from keystate.checkpoints.state_reader import StateReader
from keystate.errors import CheckpointError, DeclarationError
from keystate.state import StateDescriptor, TypeLike


class _Operators:
    """The operators of a checkpoint before it is written.

    Args:
        order: the numbers of the operators, from the last one of the query on.
    """

    def __init__(self, session: SparkSession, order: list[int]) -> None:
        self._session = session
        self._operators: dict[int, OperatorDraft] = {}
        self._order = order
        self._next = max(order, default=-1) + 1

    def add_operator(
        self,
        operator: Any,
        *,
        key: TypeLike,
        states: Mapping[str, DataFrame] | None = None,
        timers: DataFrame | None = None,
        time_mode: str = "auto",
        max_parallelism: int | None = None,
    ) -> int:
        """Adds a stateful operator, with a number after those of the others.

        Number 0 is the last operator of the query, so the new operator is the one nearest the
        sources; :meth:`CheckpointEditor.order_operators` changes the order.

        Args:
            operator: the operator's function, as for :func:`keystate.admin.create`.
            key: the key columns.
            states: rows by the names of states.
            timers: the timers.
            time_mode: the operator's time mode; ``"auto"`` is the mode of the query that starts
                with the checkpoint.
            max_parallelism: the number of key groups.

        Returns:
            The operator's number; an editor's other methods take it too.

        Raises:
            DeclarationError, StateTypeError: as for :func:`keystate.admin.create`.
        """
        number = self._next
        self._operators[number] = new_operator(
            number, operator, key, states, timers, time_mode, max_parallelism
        )
        self._order.append(number)
        self._next += 1
        return number


class CheckpointBuilder(_Operators):
    """The checkpoint that a new query begins from; made by :func:`keystate.admin.build`."""

    def __init__(self, session: SparkSession, partitions: int, sources: int) -> None:
        super().__init__(session, [])
        self._partitions = partitions
        self._sources = sources

    def write(self, target: str) -> None:
        """Writes the checkpoint, by Spark jobs. It appears once it is complete.

        Args:
            target: a folder that does not exist, or is empty.

        Raises:
            DeclarationError: there is no operator.
            CheckpointError: as for :func:`keystate.admin.create`. Then there is no target.
        """
        if not self._operators:
            raise DeclarationError("a checkpoint needs one operator at least: use add_operator")
        written = [one.written(self._session, i) for i, one in self._operators.items()]
        operators = arguments(written)
        bridge.call(self._session, "create", target, *operators, self._partitions, self._sources)


class CheckpointEditor(_Operators):
    """A changed copy of a checkpoint; made by :func:`keystate.admin.edit`.

    The methods note changes; :meth:`write` writes the copy. ``operator=`` may be left out if the
    query has one operator of Keystate's.
    """

    def __init__(self, session: SparkSession, reader: StateReader) -> None:
        found = reader.found["operators"]
        super().__init__(session, [one["id"] for one in found])
        self._checkpoint = reader.checkpoint
        self._operators.update(
            (one["id"], stored_operator(reader, one)) for one in found if one["keystate"]
        )
        self._found = frozenset(self._order)

    def _note_successor(self, number: int) -> None:
        """Notes that an added operator replaces one of the query.

        So the operator takes no initial state.
        """
        self._operators[number].has_run = True

    @property
    def operators(self) -> dict[int, list[str]]:
        """The numbers of Keystate's operators, each with the states that the copy will have.

        They are in the copy's order. Until the copy is written, the numbers are those of the
        original, and those that :meth:`add_operator` returned.
        """
        own = [number for number in self._order if number in self._operators]
        return {number: list(self._operators[number].specs) for number in own}

    def read(self, state: str, *, operator: int | None = None) -> DataFrame:
        """A state as the copy will have it, with the columns that :meth:`replace` takes.

        Args:
            state: the state's current name; ``"$timers"`` for the timers.
            operator: the operator's number.

        Raises:
            CheckpointError: there is no such state or operator.
        """
        return self._operator(operator).read(self._session, state)

    def replace(self, state: str, df: DataFrame, *, operator: int | None = None) -> None:
        """Replaces a state's rows by those of a batch DataFrame.

        Args:
            state: the state's current name; ``"$timers"`` for the timers.
            df: has the columns that :func:`keystate.admin.create` takes; for broadcast state
                ``user_map_key`` and ``user_map_value``; for a list of operator state
                ``list_element`` and ``partition_id``; without ``partition_id`` the elements are
                spread evenly.
            operator: the operator's number.

        Raises:
            CheckpointError: there is no such state or operator.
            DeclarationError, StateTypeError: a column is missing or has another type.
        """
        self._operator(operator).replace(state, df)

    def add(
        self, descriptor: StateDescriptor, df: DataFrame, *, operator: int | None = None
    ) -> None:
        """Adds a keyed state with these rows; a state that begins empty need not be added.

        Raises:
            DeclarationError, StateTypeError: the state exists already, or is not well declared.
        """
        self._operator(operator).add(descriptor, df)

    def drop(self, state: str, *, operator: int | None = None) -> None:
        """Removes a state; ``"$timers"`` for the timers."""
        self._operator(operator).drop(state)

    def rename(self, state: str, name: str, *, operator: int | None = None) -> None:
        """Gives a state another name."""
        self._operator(operator).rename(state, name)

    def set_max_parallelism(self, groups: int, *, operator: int | None = None) -> None:
        """Changes the number of key groups, 1 to 32768."""
        self._operator(operator).set_max_parallelism(groups)

    def set_time_mode(self, time_mode: str, *, operator: int | None = None) -> None:
        """Changes the time mode: ``"none"``, ``"processing_time"`` or ``"event_time"``.

        Timers stay. Those of event time fire only in event time.
        """
        self._operator(operator).set_time_mode(time_mode)

    def rekey(
        self,
        key: TypeLike,
        change: Callable[[DataFrame], DataFrame],
        *,
        operator: int | None = None,
    ) -> None:
        """Changes the key columns.

        Args:
            key: the new key columns, with their names and types.
            change: gets the rows of each state, and of the timers, with the struct ``key``; returns
                them with a new ``key``, or with its fields as columns.
            operator: the operator's number.

        Raises:
            DeclarationError, StateTypeError: the result of `change` does not have the new key.
        """
        self._operator(operator).rekey(self._session, key, change)

    def drop_operator(self, operator: int) -> None:
        """Removes an operator with its state: one of Keystate's, or one of Spark's own.

        The numbers of the operators after it decrease by one when the copy is written.

        Raises:
            CheckpointError: there is no such operator.
        """
        if operator not in self._order:
            raise self._no_operator(f"no operator {operator}: those", self._order)
        self._order.remove(operator)
        self._operators.pop(operator, None)

    def order_operators(self, operators: Sequence[int]) -> None:
        """Changes the order of the query's stateful operators, Spark's own among them.

        Args:
            operators: the current numbers in the new order. The first will be number 0, which is
                the last operator of the query.

        Raises:
            DeclarationError: the list does not have each operator exactly once.
        """
        if sorted(operators) != sorted(self._order):
            raise DeclarationError(
                f"order_operators needs each of the operators {sorted(self._order)} once, got "
                f"{list(operators)}"
            )
        self._order = list(operators)

    @property
    def origins(self) -> dict[int, int]:
        """The old and the new number of each operator that the original checkpoint has."""
        return {of: i for i, of in enumerate(self._order) if of in self._found}

    @property
    def same_keys(self) -> dict[int, int]:
        """The `origins` of operators that keep their key columns."""
        return {
            of: number
            for of, number in self.origins.items()
            if of not in self._operators or not self._operators[of].rekeyed
        }

    def write(self, target: str) -> int:
        """Writes the copy, by Spark jobs. It appears once it is complete.

        Requests to forget keys (:func:`keystate.admin.forget`) that no micro-batch has taken yet
        are copied too.

        Args:
            target: a folder that does not exist, or is empty.

        Returns:
            The last batch that is in the copy.

        Raises:
            CheckpointError: ``[KEYSTATE_STATE_ROW]`` when a key is null or comes twice,
                ``[KEYSTATE_CANNOT_EDIT]``, also when a request would forget a key of an operator
                that is dropped or has another key, ``[KEYSTATE_TARGET_EXISTS]``,
                ``[KEYSTATE_QUERY_IS_RUNNING]``, or a file is lost or damaged. Then there is no
                copy.
        """
        return self._write(target, "copy")

    def _write(self, target: str, kind: str) -> int:
        written, copied = [], {}
        for number, operator in enumerate(self._order):
            draft = self._operators.get(operator)
            if draft is not None and draft.edited:
                written.append(draft.written(self._session, number))
            else:
                copied[operator] = number
        batch: int = bridge.call(
            self._session,
            "edit",
            self._checkpoint,
            target,
            *arguments(written),
            list(copied),
            list(copied.values()),
            kind,
            bridge.pairs(self.same_keys),
        )
        return batch

    def _operator(self, number: int | None) -> OperatorDraft:
        if number is None and len(self._operators) == 1:
            return next(iter(self._operators.values()))
        if number is None or number not in self._operators:
            what = "tell which operator by operator=" if number is None else f"no operator {number}"
            raise self._no_operator(f"{what}: those of Keystate", list(self._operators))
        return self._operators[number]

    def _no_operator(self, what: str, numbers: list[int]) -> CheckpointError:
        there = ", ".join(map(str, numbers)) or "none"
        return CheckpointError(
            f"{what} in {self._checkpoint} are {there}", code="KEYSTATE_NO_SUCH_STATE"
        )


def write_fork(editor: CheckpointEditor, target: str) -> int:
    """Writes the copy like `CheckpointEditor.write`, for a query that runs beside the original."""
    return editor._write(target, "fork")


def write_successor(editor: CheckpointEditor, target: str) -> int:
    """Writes the copy like `CheckpointEditor.write`, for a copy that replaces the checkpoint."""
    return editor._write(target, "successor")
