"""Keystate's errors as a worker sends them, and as a driver makes them of Spark's again."""

from __future__ import annotations

from typing import Any

import pytest
from keystate import (
    FunctionError,
    KeyedProcessFunction,
    KeystateError,
    OutputTypeError,
    StateTypeError,
    ValueStateDescriptor,
)
from keystate._worker.calls.function_errors import as_sent, function_error
from keystate.testing import KeyedProcessHarness

SPARKS = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {}\n"
    " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: ...",
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 1.0 (TID 1): {}\n\nDriver stacktrace:",
)


class Wrong(KeyedProcessFunction):
    """Stores what its state does not hold."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "bigint"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update("many")


def raised(call: Any) -> Any:
    with pytest.raises(KeystateError) as failure:
        call()
    return failure.value


def of(error: KeystateError, form: str) -> Exception:
    return Exception(form.format(f"{type(error).__name__}: {error}"))


@pytest.mark.parametrize("form", SPARKS)
def test_a_wrong_value(form: str) -> None:
    harness = KeyedProcessHarness(Wrong(), "key long", "key", "key long")
    sent = as_sent(raised(lambda: harness.process((7,))))
    text = str(sent)
    assert text.count('self.n.update("many")') == 1 and "_worker" not in text
    made = StateTypeError.of(of(sent, form))
    assert made is not None and type(made) is StateTypeError and str(made) == text
    assert (made.code, made.state, made.key, made.row) == ("KEYSTATE_STATE_TYPE", "n", "7", None)
    assert FunctionError.of(of(sent, form)) is None


@pytest.mark.parametrize("form", SPARKS)
@pytest.mark.parametrize(
    "where, key, row, timer",
    [
        ("while processing key 3, row Row(a=1)", "3", "Row(a=1)", None),
        ("while processing key ('a', 2), timer -5", "('a', 2)", None, -5),
        ("while processing row Row(a=1)", None, "Row(a=1)", None),
        ("", None, None, None),
    ],
)
def test_an_error_of_a_function(form: str, where: str, key: Any, row: Any, timer: Any) -> None:
    try:
        {}["missing"]
    except KeyError as e:
        sent = as_sent(function_error(e, where))
    made = KeystateError.of(of(sent, form))
    assert isinstance(made, FunctionError)
    assert (made.error, made.key, made.row, made.timer) == ("KeyError: 'missing'", key, row, timer)
    assert made.traceback is not None and '{}["missing"]' in made.traceback
    assert "processing" not in made.traceback


def test_a_wrong_result() -> None:
    text = (
        "OutputTypeError: [KEYSTATE_RESULT_TYPE] a result, while processing key 0, row Row(user=0),"
        " does not fit the output schema struct<n:bigint>: expected bigint, got str 'many'"
    )
    made = OutputTypeError.of(Exception(SPARKS[0].format(text)))
    assert made is not None and (made.key, made.row) == ("0", "Row(user=0)")


def test_errors_of_others() -> None:
    class Query:
        def exception(self) -> Exception | None:
            return self.error

        error: Exception | None = None

    query = Query()
    assert KeystateError.of(query) is None
    query.error = Exception("[STREAM_FAILED] something else")
    assert KeystateError.of(query) is None
    query.error = Exception(SPARKS[0].format("[KEYSTATE_FENCED] Another driver"))
    made = KeystateError.of(query)
    assert made is not None and type(made) is KeystateError
    assert (made.code, str(made)) == ("KEYSTATE_FENCED", "[KEYSTATE_FENCED] Another driver")
