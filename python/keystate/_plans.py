"""How functions of each class are called."""

from __future__ import annotations

import dataclasses
from typing import Any

from pyspark.sql import types as T

from keystate._reduce import RollingReduce
from keystate._worker.plan import FunctionPlan, Style
from keystate.co_functions import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from keystate.errors import DeclarationError
from keystate.functions import (
    BroadcastProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)


def process_plan(fn: Any) -> FunctionPlan:
    """How a function of a row and its context is called."""
    plan = make_plan(fn, KeyedProcessFunction, "process_element", Style.PROCESS)
    return dataclasses.replace(plan, on_timer="on_timer") if _has_timers(fn) else plan


def broadcast_plan(fn: Any, keyed: bool) -> FunctionPlan:
    """How a function of rows and broadcast elements is called."""
    base = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
    if not isinstance(fn, base):
        kind = "keyed" if keyed else "not keyed"
        raise DeclarationError(f"the stream is {kind}: expected a {base.__name__}, got {fn!r}")
    on_timer = "on_timer" if _has_timers(fn) else ""
    return FunctionPlan(fn, "process_element", Style.PROCESS, on_timer, "process_broadcast_element")


def co_plan(fn: Any, base: type, first: str, second: str, style: Style) -> FunctionPlan:
    """How a function of the rows of two inputs is called."""
    if not isinstance(fn, base):
        raise DeclarationError(
            f"two keyed streams are connected: expected a {base.__name__}, got {fn!r}"
        )
    on_timer = "on_timer" if _has_timers(fn) else ""
    return FunctionPlan(fn, first, style, on_timer, second=second)


def two_input_plan(fn: Any) -> FunctionPlan:
    """How a function of two inputs, of any class, is called."""
    if isinstance(fn, CoMapFunction):
        return co_plan(fn, CoMapFunction, "map1", "map2", Style.MAP)
    if isinstance(fn, CoFlatMapFunction):
        return co_plan(fn, CoFlatMapFunction, "flat_map1", "flat_map2", Style.FLAT_MAP)
    methods = ("process_element1", "process_element2")
    return co_plan(fn, KeyedCoProcessFunction, *methods, Style.PROCESS)


def function_plan(fn: Any, row_type: T.StructType) -> FunctionPlan:
    """How a function of any class is called; a plain callable as ``process_element`` is."""
    for base, method, style in (
        (KeyedBatchFunction, "process_batch", Style.BATCHES),
        (FlatMapFunction, "flat_map", Style.FLAT_MAP),
        (MapFunction, "map", Style.MAP),
        (FilterFunction, "filter", Style.FILTER),
        (ProcessFunction, "process_element", Style.PROCESS),
        (SinkFunction, "invoke", Style.SINK),
    ):
        if isinstance(fn, base):
            return make_plan(fn, base, method, style)
    if isinstance(fn, ReduceFunction):
        fn = RollingReduce(make_plan(fn, ReduceFunction, "reduce", Style.MAP), row_type)
    return process_plan(fn)


def make_plan(fn: Any, base: type, method: str, style: Style) -> FunctionPlan:
    """How a function of a class is called, or a plain callable in its place."""
    if isinstance(fn, type):
        raise DeclarationError(f"expected an object, got the class {fn.__name__}: add ()")
    if isinstance(fn, base):
        return FunctionPlan(fn, method, style)
    if isinstance(fn, Function) or not callable(fn):
        raise DeclarationError(f"expected a {base.__name__} or a callable, got {fn!r}")
    return FunctionPlan(fn, "", style)


def _has_timers(fn: Any) -> bool:
    return any(
        isinstance(fn, base) and type(fn).on_timer is not base.on_timer
        for base in (KeyedProcessFunction, KeyedBroadcastProcessFunction, KeyedCoProcessFunction)
    )
