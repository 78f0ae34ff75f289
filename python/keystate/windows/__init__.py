"""Windows of keyed streams, under PyFlink's names.

>>> keystate.keyed(df, "key").window(TumblingEventTimeWindows.of(Time.minutes(5)))
"""

from keystate.windows._assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowAssignerContext,
)
from keystate.windows._builder import Windows, window
from keystate.windows._evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    EvictorContext,
    TimeEvictor,
    TimestampedValue,
)
from keystate.windows._functions import (
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
    WindowRuntimeContext,
)
from keystate.windows._stream import WindowedStream
from keystate.windows._triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    OnMergeContext,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from keystate.windows._window import GlobalWindow, TimeWindow, Window
from keystate.windows._window_time import with_window_time
from keystate.windows._windowing import WindowedRows

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountTrigger",
    "DeltaEvictor",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "GlobalWindow",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "OnMergeContext",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimestampedValue",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowAssignerContext",
    "WindowContext",
    "WindowFunction",
    "WindowRuntimeContext",
    "WindowedRows",
    "WindowedStream",
    "Windows",
    "window",
    "with_window_time",
]
