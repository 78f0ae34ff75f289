"""What is declared of windows, and the function that they become."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import types as T

from keystate._operators.aggregates import DeclaredWindows
from keystate._operators.function_specs import make_function_spec
from keystate._types.codec import Shape
from keystate._worker.calls.function_spec import FunctionSpec, Style
from keystate.errors import DeclarationError
from keystate.functions import OutputTag, ReduceFunction
from keystate.state import TypeLike
from keystate.state.aggregates import AggregateFunction
from keystate.windows._assigners import (
    MergingWindowAssigner,
    WindowAssigner,
    fires_at_end,
    is_fixed,
    is_session,
)
from keystate.windows._calls import UserFunction, WindowCalls
from keystate.windows._contents import (
    AggregateFold,
    Contents,
    Fold,
    FoldedContents,
    ListedContents,
    ReduceFold,
)
from keystate.windows._evictors import Evictor
from keystate.windows._functions import ProcessWindowFunction, WindowFunction
from keystate.windows._merging import FoldedSessions, ListedSessions
from keystate.windows._triggers import Trigger
from keystate.windows._window import Duration, millis
from keystate.windows._windows_function import DeclaredRows, WindowsFunction

W = TypeVar("W", bound="Windowing")


class Windowing:
    """An assigner with trigger, evictor and lateness; each method gives a changed copy."""

    def __init__(self, assigner: WindowAssigner) -> None:
        _check(assigner, WindowAssigner, "TumblingEventTimeWindows.of(Time.minutes(5))")
        self._assigner = assigner
        self._trigger = assigner.get_default_trigger()
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_output: OutputTag | None = None

    def trigger(self: W, trigger: Trigger) -> W:
        """Has windows fire when this trigger says so, not by the assigner's default."""
        _check(trigger, Trigger, "CountTrigger.of(10)")
        return self._with(_trigger=trigger)

    def evictor(self: W, evictor: Evictor) -> W:
        """Has rows taken out of windows that fire. All rows of a window are kept then."""
        _check(evictor, Evictor, "CountEvictor.of(10)")
        return self._with(_evictor=evictor)

    def allowed_lateness(self: W, time: Duration) -> W:
        """Keeps a window for so long after its end, for late rows; for windows by event time."""
        lateness = millis(time, "the allowed lateness")
        if lateness < 0:
            raise DeclarationError(f"the allowed lateness can't be negative, got {lateness} ms")
        return self._with(_lateness=lateness)

    def side_output_late_data(self: W, output_tag: OutputTag) -> W:
        """Emits rows that are too late for all of their windows to a side output.

        Otherwise they are dropped, and counted in the metric ``numLateRecordsDropped``.

        Args:
            output_tag: a side output with the input's schema.
        """
        _check(output_tag, OutputTag, "OutputTag('late', df.schema)")
        return self._with(_late_output=output_tag)

    def _with(self: W, **changes: Any) -> W:
        changed = copy.copy(self)
        changed.__dict__.update(changes)
        return changed

    def _reduce(self, fn: Any, window_function: UserFunction) -> WindowedRows:
        function_spec = make_function_spec(fn, ReduceFunction, "reduce", Style.MAP)
        return self._rows(window_function, function_spec)

    def _aggregate(
        self,
        fn: AggregateFunction[Any, Any, Any],
        acc_type: TypeLike,
        window_function: UserFunction,
    ) -> WindowedRows:
        _check(fn, AggregateFunction, "Average()")
        merges = isinstance(self._assigner, MergingWindowAssigner)
        if merges and type(fn).merge is AggregateFunction.merge:
            raise DeclarationError(
                f"{type(fn).__name__} does not define merge, which is needed where windows are "
                "merged, as sessions are"
            )
        return self._rows(window_function, AggregateFold(fn, acc_type))

    def _declared(self, time_column: int | None, event_time: str | None) -> DeclaredWindows:
        """These windows for aggregates of columns.

        Raises:
            DeclarationError: they don't end by themselves, or need code of the user's.
        """
        assigner = self._assigner
        bounds = _bounds_for_columns(assigner)
        if not fires_at_end(self._trigger, assigner):
            raise _by_rows(f"a {type(self._trigger).__name__}")
        if self._evictor is not None:
            raise _by_rows("an evictor")
        _check_time(assigner, time_column)
        return DeclaredWindows(
            by_event_time=assigner.is_event_time(),
            bounds=bounds,
            lateness=self._lateness,
            late_output=self._late_output,
            event_time=event_time,
        )

    def _process(self, fn: ProcessWindowFunction) -> WindowedRows:
        _check(fn, ProcessWindowFunction, "MyFunction()")
        return self._rows(fn, None)

    def _apply(self, fn: WindowFunction) -> WindowedRows:
        _check(fn, WindowFunction, "MyFunction()")
        return self._rows(fn, None)

    def _rows(self, function: UserFunction, fold: FunctionSpec | Fold | None) -> WindowedRows:
        if function is not None:
            _check(function, (ProcessWindowFunction, WindowFunction), "MyFunction()")
        if isinstance(self._assigner, MergingWindowAssigner) and not self._trigger.can_merge():
            raise DeclarationError(
                f"{type(self._trigger).__name__} can't be used where windows are merged, as "
                "sessions are: it has no on_merge"
            )
        return WindowedRows(self, function, fold)


@dataclass(frozen=True)
class WindowedRows:
    """Windows and their functions, for rows of any type.

    Attributes:
        windowing: the windows.
        function: what takes a window's rows, or its one result.
        fold: what makes that one result; of a reduce function its spec, until the rows' type is
            known.
    """

    windowing: Windowing
    function: UserFunction
    fold: FunctionSpec | Fold | None

    def function_spec(
        self, row_type: T.StructType, shape: Shape | None, time_column: int | None
    ) -> FunctionSpec:
        """How rows of a type, and of a class if they have one, are processed.

        Raises:
            DeclarationError: windows by event time need the column that has it.
        """
        _check_time(self.windowing._assigner, time_column)
        operator = self._operator(row_type, shape, time_column)
        return FunctionSpec(operator, "process_element", Style.WINDOWS, on_timer="on_timer")

    def _operator(
        self, row_type: T.StructType, shape: Shape | None, time_column: int | None
    ) -> WindowsFunction:
        fold = self.fold
        if isinstance(fold, FunctionSpec):
            fold = ReduceFold(fold, row_type, shape)
        windows = self.windowing
        merges = isinstance(windows._assigner, MergingWindowAssigner)
        contents: Contents
        if fold is not None and windows._evictor is None:
            contents = FoldedSessions(fold) if merges else FoldedContents(fold)
        else:
            listed = ListedSessions if merges else ListedContents
            contents = listed(row_type, shape)
        return WindowsFunction(
            windows._assigner,
            windows._trigger,
            windows._evictor,
            windows._lateness,
            contents,
            WindowCalls(self.function),
            fold,
            DeclaredRows(row_type, shape, time_column, windows._late_output),
        )


def _check_time(assigner: WindowAssigner, time_column: int | None) -> None:
    if assigner.is_event_time() and time_column is None:
        raise DeclarationError(
            f"{type(assigner).__name__} need a watermark: call "
            "df.withWatermark(column, delay) before keystate.keyed(df, ...); for a batch "
            "DataFrame, which has none, name the column: window(assigner, event_time=column)",
            code="KEYSTATE_NO_WATERMARK",
        )


def _bounds_for_columns(assigner: WindowAssigner) -> dict[str, int]:
    """What tells the windows' bounds, in ms.

    Raises:
        DeclarationError: only the assigner's own code does.
    """
    if is_fixed(assigner):
        return {"size": assigner.size, "slide": assigner.slide, "offset": assigner.offset}
    if not is_session(assigner):
        raise _by_rows(type(assigner).__name__)
    if assigner.gap is None:
        raise _by_rows("sessions whose gap each row tells")
    return {"gap": assigner.gap}


def _by_rows(what: str) -> DeclarationError:
    return DeclarationError(
        f"aggregates of columns don't go with {what}: give aggregate() an AggregateFunction"
    )


def _check(value: Any, kinds: type | tuple[type, ...], example: str) -> None:
    if isinstance(value, kinds):
        return
    names = [kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,))]
    raise DeclarationError(
        f"expected an object of class {' or '.join(names)}, as {example}, got {value!r}"
    )
