"""What an operator runs in its tasks: a function with all that was declared of it, checked."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

from keystate._codec import Shape
from keystate._operators.discovery import discover_states
from keystate._operators.pickling import pickled
from keystate._spec import (
    MAIN_OUTPUT,
    OperatorSpec,
    check_columns,
    check_distinct,
    check_names,
    resolve_lasting_state,
    resolve_schema,
)
from keystate._time_mode import DECLARED, time_mode_of
from keystate._worker.calls.plan import FunctionPlan, Style
from keystate._worker.task import TaskFunction
from keystate.errors import DeclarationError
from keystate.functions import (
    CheckpointedFunction,
    CheckpointListener,
    ListCheckpointed,
    OutputTag,
)
from keystate.state import MapStateDescriptor, TypeLike
from keystate.ttl import needs_notes


class BroadcastElements:
    """What a broadcast stream has: its rows' type, and the states that are made of them."""

    def __init__(
        self, row_type: T.StructType, state_descriptors: Sequence[MapStateDescriptor[Any, Any]]
    ) -> None:
        if not state_descriptors:
            raise DeclarationError("broadcast() needs at least one MapStateDescriptor")
        for descriptor in state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise DeclarationError(
                    f"broadcast state is described by a MapStateDescriptor, got {descriptor!r}"
                )
        check_columns(row_type, "the broadcast input")
        check_distinct(row_type, "the broadcast input")
        self.row_type = row_type
        self.states = tuple(
            dataclasses.replace(
                resolve_lasting_state(d, "broadcast"), kind="broadcast", descriptor="broadcast"
            )
            for d in state_descriptors
        )


@dataclass(frozen=True)
class Declared:
    """What is declared of an operator beside its function.

    Attributes:
        row_type: the input's columns.
        key_type: the key's columns; none of a stream without keys.
        output_schema: the rows of the main output.
        name: the operator's.
        max_parallelism: the number of key groups, if it is told.
        time_mode: which clock it goes by.
        broadcast: what is broadcast to it.
        second_type: the columns of its second input, or of its initial state; ``None`` if it has
            neither.
        late_outputs: for each input where its late rows go, if that output is read; ``None``, or
            nothing at all, if they are dropped.
        side_outputs: the side outputs that are read.
        pickles: what pickles in its operator state may name.
        row_shape: how rows become objects of a dataclass; ``None`` if they are Rows.
        second_shape: the same of the second input.
    """

    row_type: T.StructType
    key_type: T.StructType
    output_schema: TypeLike
    name: str | None = None
    max_parallelism: int | None = None
    time_mode: str = "auto"
    broadcast: BroadcastElements | None = None
    side_outputs: tuple[OutputTag, ...] = ()
    pickles: tuple[str, ...] = ()
    second_type: T.StructType | None = None
    late_outputs: tuple[OutputTag | None, ...] = ()
    row_shape: Shape | None = None
    second_shape: Shape | None = None


def task_function(plan: FunctionPlan, declared: Declared) -> TaskFunction:
    """The function and what is declared of it, as Spark's tasks call it.

    Raises:
        DeclarationError: the function, one of its states or the schema is not well declared.
    """
    output_type = _output_type(declared)
    check_columns(declared.row_type, "the input")
    check_columns(declared.key_type, "the key")
    function = pickled(plan, plan.function)
    spec = operator_spec(plan, function, declared)
    _check(plan, spec, declared)
    broadcast_type = declared.broadcast.row_type if declared.broadcast is not None else None
    types = (declared.key_type, declared.row_type, output_type, broadcast_type)
    if declared.second_type is not None:
        check_columns(
            declared.second_type, "the initial state" if plan.initial else "the second input"
        )
    return TaskFunction(uuid.uuid4().hex, function, spec, *types, declared.second_type)


def _output_type(declared: Declared) -> T.StructType:
    main = resolve_schema(declared.output_schema, "the output schema")
    check_columns(main, "the output schema")
    return _tagged_type(main, declared.side_outputs) if declared.side_outputs else main


def operator_spec(plan: FunctionPlan, function: bytes, declared: Declared) -> OperatorSpec:
    """What a pickled function and its surroundings make of an operator."""
    states, operator_states, metrics = discover_states(function)
    broadcast = declared.broadcast
    kinds = (CheckpointedFunction, ListCheckpointed, CheckpointListener)
    checkpointed = isinstance(plan.function, kinds)
    if checkpointed and broadcast is not None:
        raise DeclarationError(
            "a function of broadcast elements can't have operator state: keep it in broadcast state"
        )
    keyed = bool(declared.key_type.fields)
    return OperatorSpec(
        name=declared.name,
        max_parallelism=declared.max_parallelism,
        time_mode=time_mode_of(declared.time_mode, DECLARED),
        timers=bool(plan.on_timer),
        states=states,
        broadcast=broadcast.states if broadcast is not None else (),
        checkpointed=checkpointed,
        operator_states=operator_states,
        raw_keyed=isinstance(plan.function, CheckpointedFunction) and keyed,
        side_outputs=bool(declared.side_outputs),
        metrics=metrics,
        pickles=declared.pickles,
        late_outputs=tuple(_index_of(tag, declared) for tag in declared.late_outputs),
        row_shape=declared.row_shape,
        second_shape=declared.second_shape,
        takes_late_rows=plan.style is Style.WINDOWS,
        takes_columns=plan.style in (Style.BATCHES, Style.WINDOWS),
    )


def check_late_output(tag: Any, row_type: T.StructType) -> None:
    """Raises DeclarationError when late rows can't go to a side output."""
    if not isinstance(tag, OutputTag):
        raise DeclarationError(f"late_output is an OutputTag, got {tag!r}")
    taken = resolve_schema(tag.type, f"side output '{tag.tag_id}'")
    if [(f.name, f.dataType) for f in taken] != [(f.name, f.dataType) for f in row_type]:
        raise DeclarationError(
            f"side output '{tag.tag_id}' takes {taken.simpleString()}, but late rows are "
            f"{row_type.simpleString()}: declare it as OutputTag('{tag.tag_id}', df.schema)"
        )


def _index_of(tag: OutputTag | None, declared: Declared) -> int | None:
    if tag not in declared.side_outputs:
        return None
    return 1 + declared.side_outputs.index(tag)  # the main output is the first


def _check(plan: FunctionPlan, spec: OperatorSpec, declared: Declared) -> None:
    if plan.style is Style.BATCHES:
        if declared.side_outputs:
            raise DeclarationError("process_batches has no side outputs")
        _check_value_states(spec)
    if not declared.key_type.fields and spec.states:
        name = spec.states[0].name
        raise DeclarationError(f"state '{name}' needs a key: use keystate.keyed(df, ...)")
    check_names(spec)


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
        if state.kind != "value" or state.has_function:
            raise DeclarationError(
                f"state '{state.name}' is a {state.descriptor} state: process_batches has value "
                "states only"
            )
        if needs_notes(state.ttl):
            raise DeclarationError(
                f"state '{state.name}': process_batches has a time to live by processing time "
                "only, updated when values are written"
            )
