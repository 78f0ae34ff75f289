"""The function that an operator runs in its tasks, with its checked declarations."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql import types as T

from keystate._operators.definition import Operator
from keystate._operators.discovery import discover_states
from keystate._operators.pickling import pickled
from keystate._spec.specs import (
    MAIN_OUTPUT,
    InputSpec,
    OperatorSpec,
    StateSpec,
    SubtaskStateSpec,
    Takes,
    check_columns,
    check_distinct,
    check_names,
    resolve_lasting_state,
    resolve_schema,
)
from keystate._spec.time_mode import DECLARED, time_mode_of
from keystate._worker.calls.function_spec import Style
from keystate._worker.calls.sent import SentFunction
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.task import TaskFunction
from keystate.errors import DeclarationError
from keystate.functions import (
    CheckpointedFunction,
    CheckpointListener,
    ListCheckpointed,
    OutputTag,
)
from keystate.functions.dead_letters import DeadLetters, check_policy
from keystate.state import MapStateDescriptor
from keystate.state.kinds import StateKind
from keystate.state.ttl import needs_notes


def broadcast_states(
    row_type: T.StructType, descriptors: Sequence[MapStateDescriptor[Any, Any]]
) -> tuple[StateSpec, ...]:
    """The states that are made of the rows of a broadcast input.

    Raises:
        DeclarationError: they, or the columns of the input, are not well declared.
    """
    if not descriptors:
        raise DeclarationError("broadcast() needs at least one MapStateDescriptor")
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            raise DeclarationError(
                f"broadcast state is described by a MapStateDescriptor, got {descriptor!r}"
            )
    check_columns(row_type, "the broadcast input")
    check_distinct(row_type, "the broadcast input")
    return tuple(
        dataclasses.replace(
            resolve_lasting_state(d, "broadcast"), kind=StateKind.BROADCAST, descriptor="broadcast"
        )
        for d in descriptors
    )


def task_function(operator: Operator) -> TaskFunction:
    """An operator as Spark's tasks call it.

    Raises:
        DeclarationError: its function, one of its states or its schema is not well declared.
    """
    output_type = _output_type(operator)
    rows, broadcast, second = operator.rows, operator.broadcast_input, operator.keyed_second
    check_columns(rows.row_type, "the input")
    check_columns(rows.key_type, "the key")
    times = rows.time_column, None if second is None else second.time_column
    function_spec = dataclasses.replace(operator.function_spec, time_columns=times)
    function = pickled(function_spec, function_spec.function)
    spec = operator_spec(operator, function)
    _check(operator, spec)
    if second is not None:
        check_columns(
            second.row_type, "the initial state" if function_spec.initial else "the second input"
        )
    return TaskFunction(
        uuid.uuid4().hex,
        function,
        TaskSpec(
            spec,
            rows.key_type,
            rows.row_type,
            output_type,
            broadcast=None if broadcast is None else broadcast.rows.row_type,
            second=None if second is None else second.row_type,
        ),
    )


def _output_type(operator: Operator) -> T.StructType:
    main = resolve_schema(operator.output_schema, "the output schema")
    check_columns(main, "the output schema")
    return _tagged_type(main, operator.side_outputs) if operator.side_outputs else main


def operator_spec(operator: Operator, function: SentFunction) -> OperatorSpec:
    """The specification of an operator that worker and JVM get.

    Args:
        operator: the operator.
        function: its function spec, pickled.
    """
    states, operator_states, metrics = discover_states(function)
    function_spec, broadcast, second = (
        operator.function_spec,
        operator.broadcast_input,
        operator.keyed_second,
    )
    kinds = (CheckpointedFunction, ListCheckpointed, CheckpointListener)
    checkpointed = isinstance(function_spec.function, kinds)
    raw_keyed = isinstance(function_spec.function, CheckpointedFunction) and bool(
        operator.rows.keys
    )
    if checkpointed and broadcast is not None:
        raise DeclarationError(
            "a function of broadcast elements can't have operator state: keep it in broadcast state"
        )
    of_windows = function_spec.style is Style.WINDOWS
    inputs = (operator.rows,) if second is None else (operator.rows, second)
    return OperatorSpec(
        name=operator.name,
        max_parallelism=operator.max_parallelism,
        time_mode=time_mode_of(operator.time_mode, DECLARED),
        timers=bool(function_spec.on_timer),
        states=states,
        broadcast=() if broadcast is None else broadcast.states,
        subtask_state=(
            SubtaskStateSpec(operator_states, raw_keyed, operator.pickles) if checkpointed else None
        ),
        side_outputs=bool(operator.side_outputs),
        metrics=metrics or function_spec.dead_letters is not None,
        inputs=tuple(
            InputSpec(_index_of(each.late_output, operator), each.shape) for each in inputs
        ),
        takes=Takes(
            late_rows=of_windows,
            columns=function_spec.style in (Style.BATCHES, Style.WINDOWS),
            windows=function_spec.function.windows if of_windows else None,
        ),
    )


def _index_of(tag: OutputTag | None, operator: Operator) -> int | None:
    if tag not in operator.side_outputs:
        return None
    return 1 + operator.side_outputs.index(tag)  # the main output is the first


def _check(operator: Operator, spec: OperatorSpec) -> None:
    if operator.function_spec.dead_letters is not None:
        _check_dead_letters(operator, operator.function_spec.dead_letters)
    if operator.function_spec.style is Style.BATCHES:
        letters = operator.function_spec.dead_letters
        if set(operator.side_outputs) - {letters and letters.tag}:
            raise DeclarationError("process_batches has no side outputs but dead letters")
        _check_value_states(spec)
    if not operator.rows.keys and spec.states:
        name = spec.states[0].name
        raise DeclarationError(f"state '{name}' needs a key: use keystate.keyed(df, ...)")
    check_names(spec)


def _check_dead_letters(operator: Operator, policy: DeadLetters) -> None:
    function_spec, second = operator.function_spec, operator.keyed_second
    checkpointed = isinstance(function_spec.function, (CheckpointedFunction, ListCheckpointed))
    if checkpointed and function_spec.style in (Style.ASYNC, Style.BATCHES):
        raise DeclarationError(
            f"on_error=dead_letters(...) does not support operator state, which "
            f"{type(function_spec.function).__name__} has, where many rows are at work at a time: "
            "what one did to it can't be undone"
        )
    types = [operator.rows.row_type]
    if second is not None and not function_spec.initial:
        types.append(second.row_type)
    check_policy(policy, types)


def _tagged_type(main: T.StructType, tags: tuple[OutputTag, ...]) -> T.StructType:
    """A struct column for the main output and one for each side output."""
    fields = [T.StructField(MAIN_OUTPUT, main)]
    names = {MAIN_OUTPUT}
    for tag in tags:
        place = f"side output '{tag.tag_id}'"
        if tag.tag_id.lower() in names:
            raise DeclarationError(
                f"two outputs are named '{tag.tag_id}': names differ in more than upper and lower "
                f"case, and '{MAIN_OUTPUT}' is the main output"
            )
        names.add(tag.tag_id.lower())
        row_type = resolve_schema(tag.type, place)
        check_columns(row_type, place)
        fields.append(T.StructField(tag.tag_id, row_type))
    return T.StructType(fields)


def _check_value_states(spec: OperatorSpec) -> None:
    for state in spec.states:
        if state.kind != StateKind.VALUE or state.has_function:
            raise DeclarationError(
                f"state '{state.name}' is a {state.descriptor} state: process_batches has value "
                "states only"
            )
        if needs_notes(state.ttl):
            raise DeclarationError(
                f"state '{state.name}': process_batches has a time to live by processing time "
                "only, updated when values are written"
            )
