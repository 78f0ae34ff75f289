"""The table of features."""

from __future__ import annotations

from tests.matrix import input_features as inputs
from tests.matrix import keyed_features as keyed
from tests.matrix import operator_state as state
from tests.matrix import timed_features as timed
from tests.matrix.feature import CountModel, Feature, ListModel, process
from tests.matrix.flow import OUTPUT

FEATURES = [
    Feature(
        "states", ("value state", "list state", "map state", "sorted map state", "reducing state",
                   "counters"),
        process(lambda place: keyed.States(place.number)), keyed.StatesModel,
    ),
    Feature("letters", ("rows beside dead letters", "side output", "dead letters"),
            keyed.letters, keyed.LettersModel),
    Feature("timers", ("rows beside timers", "timers", "late output"),
            timed.timers, timed.TimersModel),
    Feature("windows", ("windows", "late output"), timed.windows, timed.WindowsModel),
    Feature("two inputs", ("two inputs",), inputs.two_inputs, inputs.TwoInputsModel),
    Feature("broadcast", ("broadcast state",), inputs.broadcast, inputs.BroadcastModel),
    Feature("broadcast table", ("broadcast table",), inputs.broadcast_table, inputs.NamedModel),
    Feature("async", ("async",), process(lambda place: keyed.Awaits()), lambda: ListModel("async")),
    Feature("columns", ("columns",), keyed.columns, keyed.ColumnsModel),
    Feature(
        "batches", ("batches",),
        lambda df, place: place.keyed(df).process_batches(keyed.Sums(), OUTPUT, time_mode="none"),
        keyed.SumsModel,
    ),
    Feature("initial state", ("initial state",), keyed.initial, keyed.InitialModel),
    Feature(
        "limits", ("limits",), process(lambda place: keyed.Limited(place.number, place.limit)),
        lambda: ListModel("limits"), limited=True,
    ),
    Feature(
        "operator state", ("operator state",),
        process(lambda place: state.KeepingKeyed(place.number, "operator state")),
        lambda: state.ListsModel("operator state"),
    ),
    Feature("no keys", ("operator state without keys",), state.no_keys,
            lambda: state.ListsModel("operator state without keys")),
    Feature("raw state", ("raw keyed state",), process(lambda place: state.Sketches()),
            lambda: CountModel("raw keyed state")),
]  # fmt: skip
BY_NAME = {feature.name: feature for feature in FEATURES}
#: What stands in front of a feature, or behind it.
COUNT = Feature("count", ("count",), process(lambda place: state.Counting()),
                lambda: CountModel("count"))  # fmt: skip
