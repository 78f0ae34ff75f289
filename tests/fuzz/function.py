"""The function that does what a program says, with all the ways to change objects afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AsyncKeyedProcessFunction,
    FoldingStateDescriptor,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyOrder,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

from tests.fuzz import values as v
from tests.fuzz.program import Op, Program, Segment, State

#: How many elements a fold keeps, so that states stay small.
KEPT = 5
SIDE = "side"


def output_schema(program: Program, segment: Segment) -> str:
    """A result has the row's step, a text, or an object as a state returned it."""
    columns = "".join(f", o{i} {s.shown.ddl}" for i, s in enumerate(segment.states))
    return f"k {program.key.ddl}, step bigint, text string{columns}"


def input_schema(program: Program) -> str:
    return f"k {program.key.ddl}, step bigint, at timestamp"


class Concat(AggregateFunction):
    """Its accumulator is a list that is changed in place, and the result too."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        return append(accumulator, value)

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


def append(accumulator: list[Any], value: Any) -> list[Any]:
    accumulator.append(value)
    del accumulator[:-KEPT]
    return accumulator


def _concat(a: list[Any], b: list[Any]) -> list[Any]:
    a.extend(b)
    del a[:-KEPT]
    return a


def _field(value: Any, i: int, name: str) -> Any:
    if isinstance(value, dict):
        return value[name]
    return value[i] if isinstance(value, tuple) else getattr(value, name)


def _pair(a: Any, b: Any) -> Any:
    numbers = (_field(a, 0, "n") + _field(b, 0, "n")) % 1000
    return numbers, _concat(_field(a, 1, "xs"), _field(b, 1, "xs"))


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "concat": _concat,
    "pair": _pair,
}


class Steps:
    """Does the steps of a segment."""

    def __init__(self, program: Program, segment: Segment, tagged: bool) -> None:
        self._program = program
        self._segment = segment
        self._tag = OutputTag(SIDE, output_schema(program, segment)) if tagged else None

    def open(self, ctx: Any) -> None:
        self._states = [_get(ctx, state) for state in self._segment.states]
        self._scratch: dict[Any, Any] = {}

    def steps_of(self, row: Any, ctx: Any) -> Iterator[Any]:
        return self._do(row.step, self._segment.steps[row.step], ctx.timestamp(), ctx)

    def timer_steps(self, time: int, ctx: Any) -> Iterator[Any]:
        yield from self._result(ctx, -time, Op(-1, "fired"), f"fired {time}", None)
        timers = self._segment.timers
        yield from self._do(-time, timers[time % len(timers)], time, ctx)

    def _do(self, step: int, ops: tuple[Op, ...], time: int, ctx: Any) -> Iterator[Any]:
        for op in ops:
            if op.state < 0:
                timers = ctx.timer_service()
                getattr(timers, f"{op.method}_event_time_timer")(time + op.args[0])
                continue
            state = self._segment.states[op.state]
            for shown in self._call(op, state, self._states[op.state]):
                yield from self._result(ctx, step, op, shown, state)

    def _result(
        self, ctx: Any, step: int, op: Op, shown: Any, state: State | None
    ) -> Iterator[Any]:
        """What is emitted of what a method returned: its text, or the object itself."""
        names = ["k", "step", "text", *(f"o{i}" for i in range(len(self._segment.states)))]
        row = dict.fromkeys(names)
        row |= {"k": ctx.get_current_key(), "step": step}
        if state is not None and op.emit and op.method in SHOWN and shown is not None:
            row[f"o{op.state}"] = shown
        else:
            row["text"] = repr(v.plain(shown))
        result: Any = row if op.form == "dict" else tuple(row.values())
        if op.use == "scratch":
            result = self._scratch["result"] = v.refill(self._scratch.get("result"), result)
        yield (self._tag, result) if self._tag is not None and step % 3 == 0 else result
        if op.use == "changed" and isinstance(result, dict):
            result["text"] = "changed afterwards"

    def _call(self, op: Op, state: State, on: Any) -> Iterator[Any]:
        """Calls a method; what it returns comes before anything is changed in place."""
        method = op.method
        if method == "cycle":
            yield from getattr(self, f"_cycle_{state.kind}")(op, state, on)
        elif method == "clear":
            on.clear()
        elif state.kind in ("map", "sorted_map"):
            yield from self._call_map(op, state, on)
        elif state.kind == "list" and op.args and method != "add":
            self._each(op, state, getattr(on, method))
        elif op.args:
            given = self._given(op, state, op.args[0])
            getattr(on, method)(given)
            self._after(op, state, given)
        elif method == "update":
            on.update([])
        elif method == "add_all":
            on.add_all(iter(()))
        else:
            shown = getattr(on, method)()
            yield list(shown) if state.kind == "list" else shown

    def _each(self, op: Op, state: State, method: Callable[[Any], Any]) -> None:
        """Hands over elements: a list, or a generator that refills one object."""
        if op.use == "scratch":
            method(self._given(op, state, each) for each in op.args)
        else:
            given = [self._given(op, state, each) for each in op.args]
            method(given)
            for each in given:
                self._after(op, state, each)
            given.clear()

    def _call_map(self, op: Op, state: State, on: Any) -> Iterator[Any]:
        assert state.key is not None
        method, args = op.method, op.args
        if method == "put":
            given = self._given(op, state, args[1])
            on.put(v.key_of(state.key, args[0]), given)
            self._after(op, state, given)
        elif method == "put_all":
            given = {v.key_of(state.key, k): self._fresh(op, state, x) for k, x in args}
            on.put_all(given)
            for each in given.values():
                self._after(op, state, each)
            given.clear()
        else:
            keys = [x if isinstance(x, bool) and i == 2 else self._bound(state, x)
                    for i, x in enumerate(args)]  # fmt: skip
            if method == "sub_iterator":
                shown = list(on.sub_iterator(*keys[:2], reverse=keys[2]))
            else:
                shown = getattr(on, method)(*keys)
            if method in ("items", "keys", "values"):
                shown = list(shown)
                if state.kind == "map":
                    shown = sorted(map(v.plain, shown), key=repr)
            yield shown

    def _bound(self, state: State, key: Any) -> Any:
        assert state.key is not None
        return None if key is None else v.key_of(state.key, key)

    # -- read, emit, change in place, write, read again ----------------------------------------

    def _cycle_value(self, op: Op, state: State, on: Any) -> Iterator[Any]:
        value = on.value()
        yield value
        given = v.refill(value, self._fresh(op, state, op.args[0]))
        on.update(given)
        yield on.value()
        self._after(replace_use(op), state, given)

    def _cycle_list(self, op: Op, state: State, on: Any) -> Iterator[Any]:
        elements = list(on.get())
        yield elements
        given = v.refill(elements, [self._fresh(op, state, x) for x in op.args])
        on.update(given)
        yield list(on.get())
        self._after(replace_use(op), state, given[0] if given else None)

    def _cycle_map(self, op: Op, state: State, on: Any) -> Iterator[Any]:
        key = self._bound(state, op.args[0])
        value = on.get(key)
        yield value
        given = v.refill(value, self._fresh(op, state, op.args[1]))
        on.put(key, given)
        yield on.get(key)
        self._after(replace_use(op), state, given)

    _cycle_sorted_map = _cycle_map

    # -- what is handed over -------------------------------------------------------------------

    def _fresh(self, op: Op, state: State, value: Any) -> Any:
        return v.build(state.element, value, op.form)

    def _given(self, op: Op, state: State, value: Any) -> Any:
        made = self._fresh(op, state, value)
        if op.use != "scratch":
            return made
        place = op.state, op.form
        made = self._scratch[place] = v.refill(self._scratch.get(place), made)
        return made

    def _after(self, op: Op, state: State, given: Any) -> None:
        if op.use == "changed" and given is not None:
            v.spoil(given)


def replace_use(op: Op) -> Op:
    """Where an object was read from the state it is always changed in the end."""
    return Op(op.state, op.method, op.args, op.emit, op.form, "changed")


#: The methods whose result has the type of the state.
SHOWN = ("value", "get", "cycle")


class Yielding(Steps, KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield from self.steps_of(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from self.timer_steps(timestamp, ctx)


class Listing(Steps, KeyedProcessFunction):
    """Returns a list, so nothing is handed over before the call has ended."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        return [_kept(each) for each in self.steps_of(row, ctx)]

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [_kept(each) for each in self.timer_steps(timestamp, ctx)]


class Awaiting(Steps, AsyncKeyedProcessFunction):
    async def process_element(self, row: Any, ctx: Any) -> Any:
        for each in self.steps_of(row, ctx):
            yield each

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for each in self.timer_steps(timestamp, ctx):
            yield each


class Joining(Steps, KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield from self.steps_of(row, ctx)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield from self.steps_of(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from self.timer_steps(timestamp, ctx)


FUNCTIONS: dict[str, Any] = {
    "yield": Yielding,
    "list": Listing,
    "async": Awaiting,
    "two inputs": Joining,
}


def _kept(result: Any) -> Any:
    """A copy, as a function that returns a list has to make of what it changes before that."""
    import copy

    if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
        return result[0], copy.deepcopy(result[1])
    return copy.deepcopy(result)


def _get(ctx: Any, state: State) -> Any:
    name, ddl = state.name, state.type.ddl
    descriptor: Any
    if state.kind == "value":
        default = v.build(state.type, state.default, "tuple")
        descriptor, get = ValueStateDescriptor(name, ddl, default), ctx.get_state
    elif state.kind == "list":
        descriptor, get = ListStateDescriptor(name, ddl), ctx.get_list_state
    elif state.kind == "map":
        assert state.key is not None
        descriptor, get = MapStateDescriptor(name, state.key.ddl, ddl), ctx.get_map_state
    elif state.kind == "sorted_map":
        assert state.key is not None
        order = KeyOrder(state.order)
        descriptor = SortedMapStateDescriptor(name, state.key.ddl, ddl, order)
        get = ctx.get_sorted_map_state
    elif state.kind == "reducing":
        descriptor = ReducingStateDescriptor(name, REDUCERS[state.fold], ddl)
        get = ctx.get_reducing_state
    elif state.kind == "aggregating":
        descriptor, get = AggregatingStateDescriptor(name, Concat(), ddl), ctx.get_aggregating_state
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            descriptor = FoldingStateDescriptor(name, [], append, ddl)
        get = ctx.get_folding_state
    if state.ttl is not None:
        update, ms = state.ttl
        builder = StateTtlConfig.new_builder(timedelta(milliseconds=ms)).use_event_time()
        if update == "read":
            builder.update_ttl_on_read_and_write()
        descriptor.enable_time_to_live(builder.build())
    return get(descriptor)
