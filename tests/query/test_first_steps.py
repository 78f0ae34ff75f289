"""What a new user gets wrong is told so that they can mend it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointedFunction,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTypeError,
    ValueStateDescriptor,
)
from keystate._spec.specs import resolve_type
from keystate.testing import KeyedProcessHarness
from keystate.tools.command import main
from pyspark.sql import types as T


class Locks(KeyedProcessFunction):
    def __init__(self) -> None:
        self.name = "fine"
        self.lock = threading.Lock()

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row


def harness(fn: Any, schema: Any = "key long") -> KeyedProcessHarness:
    return KeyedProcessHarness(fn, "key long", "key", schema)


def test_a_function_that_cannot_be_pickled_names_its_attribute() -> None:
    message = (
        r"Locks can't be sent .* its attribute 'lock' \(lock\) can't be pickled: .*in open\(\)"
    )
    with pytest.raises(DeclarationError, match=message):
        harness(Locks())


def test_a_callable_that_cannot_be_pickled_names_its_variable() -> None:
    lock = threading.Lock()

    def locked(row: Any, ctx: Any) -> Any:
        with lock:
            return [row]

    with pytest.raises(DeclarationError, match=r"locked can't be sent .* variable 'lock' \(lock\)"):
        harness(locked)


def test_a_row_returned_as_a_list() -> None:
    made = harness(lambda row, ctx: [row.key, 2], "key long, n long")
    with pytest.raises(OutputTypeError, match=r"got int 1\. A list is many results: .* a tuple"):
        made.process((1,))
    # What does not fit otherwise is no list.
    made = harness(lambda row, ctx: (row.key, "x"), "key long, n long")
    with pytest.raises(OutputTypeError, match=r"got str 'x'$"):
        made.process((1,))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (int, T.LongType()),
        (float, T.DoubleType()),
        (bool, T.BooleanType()),
        (str, T.StringType()),
        (bytes, T.BinaryType()),
        (list[int], T.ArrayType(T.LongType())),
        (dict[str, float], T.MapType(T.StringType(), T.DoubleType())),
    ],
    ids=str,
)
def test_python_types_are_types(declared: Any, expected: T.DataType) -> None:
    assert resolve_type(declared, "here")[0] == expected


def test_other_classes_are_none() -> None:
    with pytest.raises(DeclarationError, match=r"here: expected a DDL string .* such as int"):
        resolve_type(threading.Lock, "here")


def test_a_dataclass_of_the_script_with_defaults() -> None:
    """It is pickled by its value, and so are its defaults."""

    @dataclass
    class Basket:
        owner: str
        items: list[str] = field(default_factory=list)
        size: int = 3

    Basket.__module__ = "__main__"

    class Keeps(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            store = context.get_operator_state_store()
            self.list = store.get_list_state(ListStateDescriptor("list", Basket))

        def open(self, ctx: Any) -> None:
            self.value = ctx.get_state(ValueStateDescriptor("value", Basket))

        def process_element(self, row: Any, ctx: Any) -> Any:
            basket = self.value.value() or Basket("ann")
            basket.items.append("egg")
            self.value.update(basket)
            self.list.add(basket)
            yield len(self.value.value().items)

        def snapshot_state(self, context: Any) -> None:
            pass

    made = harness(Keeps(), int)
    assert [made.process((1,))[0].value for _ in range(2)] == [1, 2]
    made.close()


def test_two_columns_of_one_name(spark: Any) -> None:
    twice = spark.range(2).selectExpr("id AS key", "1 AS n", "2 AS n")
    message = "the input has 2 columns named 'n': rename"
    with pytest.raises(DeclarationError, match=message):
        keystate.keyed(twice, "n")
    with pytest.raises(DeclarationError, match=message):
        keystate.stream(twice)


@pytest.mark.parametrize("limit", ["-5", "many"])
def test_a_limit_that_is_none(limit: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["read-state", "nowhere", "--limit", limit])
    assert "--limit: must be a number from 0 on" in capsys.readouterr().err


def test_a_reader_that_wants_no_more() -> None:
    """As in ``keystate read-state CHECKPOINT | head``."""
    many = "command._main = lambda arguments: [print(n) for n in range(100_000)] and 0"
    code = f"import sys; from keystate.tools import command; {many}; sys.exit(command.main([]))"
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (run.returncode, run.stderr) == (141, b"")
