"""How functions of each class are called."""

from __future__ import annotations

import dataclasses
import inspect
from datetime import timedelta
from typing import Any

from keystate._worker.calls.function_spec import AsyncCalls, FunctionSpec, Style
from keystate.errors import DeclarationError
from keystate.functions import (
    AsyncKeyedProcessFunction,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from keystate.state import Time


def process_spec(fn: Any, calls: AsyncCalls | None = None) -> FunctionSpec:
    """How a function of a row and its context is called.

    Args:
        fn: the function.
        calls: how its calls overlap, if that is given; for an async function only.
    """
    if isinstance(fn, AsyncKeyedProcessFunction):
        if not callable(fn.timeout):
            raise DeclarationError(
                f"{type(fn).__name__}.timeout is the method that is called after the timeout, got "
                f"{fn.timeout!r}: give process() the timeout, and an attribute another name"
            )
        on_timer = "on_timer" if _has_timers(fn) else ""
        calls = calls or AsyncCalls()
        return FunctionSpec(fn, "process_element", Style.ASYNC, on_timer, calls=calls)
    if _is_async(fn):
        return FunctionSpec(fn, "", Style.ASYNC, calls=calls or AsyncCalls())
    if calls is not None:
        raise DeclarationError(
            "capacity, timeout, retry and ordered are for an AsyncKeyedProcessFunction or an async "
            f"callable, got {fn!r}"
        )
    for method in ("process_element", "on_timer"):
        if _is_async(getattr(fn, method, None)):
            raise DeclarationError(
                f"{type(fn).__name__}.{method} is async: derive the class from "
                "AsyncKeyedProcessFunction"
            )
    function_spec = make_function_spec(fn, KeyedProcessFunction, "process_element", Style.PROCESS)
    return (
        dataclasses.replace(function_spec, on_timer="on_timer")
        if _has_timers(fn)
        else function_spec
    )


def initial_state_spec(fn: Any, calls: AsyncCalls | None = None) -> FunctionSpec:
    """How a function of a row and its context is called that begins with initial state.

    Args:
        fn: the function.
        calls: as for :func:`process_spec`.
    """
    function_spec = process_spec(fn, calls)
    method = getattr(type(fn), _INITIAL, None)
    own = method is not KeyedProcessFunction.process_initial_state
    if not (isinstance(fn, KeyedProcessFunction) and own):
        raise DeclarationError(
            f"initial_state needs a KeyedProcessFunction with a method {_INITIAL}, got {fn!r}"
        )
    if inspect.isgeneratorfunction(method):
        raise DeclarationError(f"{_INITIAL} of {type(fn).__name__} yields, but it emits nothing")
    return dataclasses.replace(function_spec, second=_INITIAL, initial=True)


#: The method that takes a row of initial state.
_INITIAL = "process_initial_state"


def broadcast_spec(fn: Any, keyed: bool) -> FunctionSpec:
    """How a function of rows and broadcast elements is called."""
    base = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
    if not isinstance(fn, base):
        kind = "keyed" if keyed else "not keyed"
        raise DeclarationError(f"the stream is {kind}: expected a {base.__name__}, got {fn!r}")
    on_timer = "on_timer" if _has_timers(fn) else ""
    return FunctionSpec(fn, "process_element", Style.PROCESS, on_timer, "process_broadcast_element")


#: The methods of functions of two inputs, by their class.
_OF_TWO_INPUTS: dict[type, tuple[str, str, Style]] = {
    CoMapFunction: ("map1", "map2", Style.MAP),
    CoFlatMapFunction: ("flat_map1", "flat_map2", Style.FLAT_MAP),
    KeyedCoProcessFunction: ("process_element1", "process_element2", Style.PROCESS),
}


def co_plan(fn: Any, base: type) -> FunctionSpec:
    """How a function of the rows of two inputs is called."""
    if not isinstance(fn, base):
        raise DeclarationError(
            f"two keyed streams are connected: expected a {base.__name__}, got {fn!r}"
        )
    first, second, style = _OF_TWO_INPUTS[base]
    on_timer = "on_timer" if _has_timers(fn) else ""
    return FunctionSpec(fn, first, style, on_timer, second=second)


def two_input_plan(fn: Any) -> FunctionSpec:
    """How a function of two inputs, of any class, is called."""
    bases = (base for base in _OF_TWO_INPUTS if isinstance(fn, base))
    return co_plan(fn, next(bases, KeyedCoProcessFunction))


def make_function_spec(fn: Any, base: type, method: str, style: Style) -> FunctionSpec:
    """How a function of a class is called, or a plain callable in its place."""
    if isinstance(fn, type):
        raise DeclarationError(f"expected an object, got the class {fn.__name__}: add ()")
    if _is_async(fn) or _is_async(getattr(fn, method, None)):
        raise DeclarationError(
            f"{fn!r} is async: only process() of a keyed stream takes such a function, as an "
            "AsyncKeyedProcessFunction or an async callable"
        )
    if isinstance(fn, base):
        return FunctionSpec(fn, method, style)
    if isinstance(fn, Function) or not callable(fn):
        raise DeclarationError(f"expected a {base.__name__} or a callable, got {fn!r}")
    return FunctionSpec(fn, "", style)


_WITH_TIMERS = (
    KeyedProcessFunction,
    AsyncKeyedProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)


def _has_timers(fn: Any) -> bool:
    return any(
        isinstance(fn, base) and type(fn).on_timer is not base.on_timer for base in _WITH_TIMERS
    )


def _is_async(fn: Any) -> bool:
    # For a callable object, its method ``__call__`` shows it.
    called = (fn, type(fn).__call__) if callable(fn) else (fn,)
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in called)


def async_calls(
    capacity: int | None, timeout: timedelta | Time | None, retry: Any, ordered: bool | None
) -> AsyncCalls | None:
    """How calls of an async function overlap; ``None`` if no argument is given.

    Raises:
        DeclarationError: an argument's value is not allowed.
    """
    if capacity is not None and (type(capacity) is not int or capacity < 1):
        raise DeclarationError(f"capacity is a number of rows of at least 1, got {capacity!r}")
    if retry is not None and not isinstance(retry, AsyncRetryStrategy):
        raise DeclarationError(
            f"retry is a strategy such as FixedDelayRetryStrategy(3, 100), got {retry!r}"
        )
    seconds = None if timeout is None else _seconds(timeout)
    every = {"capacity": capacity, "timeout": seconds, "retry": retry, "ordered": ordered}
    told: dict[str, Any] = {name: value for name, value in every.items() if value is not None}
    return AsyncCalls(**told) if told else None


def _seconds(timeout: Any) -> float:
    if isinstance(timeout, Time):
        seconds = timeout.to_milliseconds() / 1000
    elif isinstance(timeout, timedelta):
        seconds = timeout.total_seconds()
    else:
        raise DeclarationError(f"timeout must be a timedelta or a Time, got {timeout!r}")
    if seconds <= 0:
        raise DeclarationError(f"timeout must be longer than nothing, got {timeout!r}")
    return seconds
