"""Elements of ListCheckpointed functions: what a checkpoint may make Python do."""

from __future__ import annotations

import base64
import builtins
import datetime
import itertools
import operator
import os
import pickle
import random
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from keystate import CheckpointError, StateTypeError, ValueStateDescriptor
from keystate._spec.specs import resolve_state
from keystate._types.codec.rows import row_maker
from keystate._worker.operator_state.operator_states import OperatorListState
from keystate._worker.pickles import plain_data
from keystate._worker.pickles.pickled import Pickles
from pyspark.sql import Row

SECONDS = float(os.environ.get("KEYSTATE_FUZZ_SECONDS", 600 if "SLOW" in os.environ else 8)) / 8

HERE = __name__


class Cart:
    def __init__(self, items: int) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cart) and other.items == self.items

    class Line:
        """A class within another."""

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Cart.Line)


PLAIN = [
    None,
    True,
    1,
    1 << 80,
    1.5,
    "text",
    b"bytes",
    [1, "a", (2, {3: [4]})],
    {"a": {1, 2}, (1, "b"): ()},
    Decimal("1.50"),
    datetime.date(2024, 1, 2),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2024, 1, 2, fold=1, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 1, 2, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1), "here")),
    datetime.time(1, 2),
    datetime.timedelta(days=1),
    Row(a=1, b="x"),
    row_maker(("n", "m"))((1, 2)),
    np.int64(3),
    np.float32(1.5),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_data(value: Any) -> None:
    """By itself, and in an object that is a pickle: with nothing else named."""
    for pickles, each in ((Pickles(), value), (Pickles([f"{HERE}.Cart"]), Cart(value))):
        (text,) = pickles.encode([each])
        assert (base64.b64decode(text)[:1] == b"\x80") is isinstance(each, Cart)
        (back,) = pickles.decode([text])
        found = back.items if isinstance(each, Cart) else back
        assert found == value and type(found).__name__ == type(value).__name__
        assert getattr(found, "fold", 0) == getattr(value, "fold", 0)


class Crafted:
    """Pickled as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def named(module: str, text: str) -> bytes:
    """What names it."""
    parts = (part.encode() for part in (module, text))
    return b"".join(b"\x8c" + bytes([len(part)]) + part for part in parts) + b"\x93"


def crafted(path: Path) -> dict[str, bytes]:
    """Pickles that would make this file, or name something by which they could."""
    touch = f"open({str(path)!r}, 'w')"
    return {
        "os.system": pickle.dumps(Crafted(os.system, f"touch {path}")),
        "subprocess.Popen": pickle.dumps(Crafted(subprocess.Popen, ["touch", str(path)])),
        "eval": pickle.dumps([{"deep": Crafted(eval, touch)}]),
        "exec": pickle.dumps(Crafted(exec, touch)),
        "open": pickle.dumps(Crafted(open, str(path), "w")),
        "old protocol": f"cos\nsystem\n(S'touch {path}'\ntR.".encode(),
        "old protocol with a byte": f"\x80\x01cos\nsystem\n(S'touch {path}'\ntR.".encode("latin1"),
        "renamed in Python 3": f"\x80\x02c__builtin__\neval\n(S{touch!r}\ntR.".encode("latin1"),
        "an instance": f"\x80\x02(S'touch {path}'\nios\nsystem\n.".encode("latin1"),
        "getattr": pickle.dumps([Crafted(getattr, [], "__class__")]),
        "getattr of a class": pickle.dumps(Crafted(getattr, Cart, "__init__")),
        "__import__": pickle.dumps(Crafted(builtins.__import__, "os")),
        "attrgetter": pickle.dumps(Crafted(operator.attrgetter, "__class__")),
        "copyreg": b"\x80\x04" + named("copyreg", "_reconstructor") + b".",
        "path of names": b"\x80\x04" + named("decimal", "sys.modules.get") + b".",
        "path from an allowed class": b"\x80\x04" + named(HERE, "Cart.__init__.__globals__") + b".",
        "path in a module's name": b"\x80\x04" + named(f"{HERE}.Cart", "__init__") + b".",
        "path from our own": b"\x80\x04"
        + named("keystate._worker.pickles.plain_data", "decode.__globals__")
        + b".",
        "a module": b"\x80\x04" + named("os", "path") + b".",
        "a class that is not allowed": b"\x80\x04" + named(HERE, "Path") + b".",
        "a method": b"\x80\x04" + named("builtins", "dict.clear") + b".",
        "dtype": pickle.dumps(np.dtype([("a", object)])),
        "array": pickle.dumps(np.zeros(1)),
        "bytearray of a length": pickle.dumps(Crafted(bytearray, 1 << 40)),
    }


@pytest.mark.parametrize("name", crafted(Path("x")))
@pytest.mark.parametrize("allowed", [(), (f"{HERE}.Cart",)], ids=["none", "Cart"])
def test_what_would_run_is_refused(name: str, allowed: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    text = base64.b64encode(crafted(victim)[name]).decode()
    wanted = "CORRUPT_FILE" if name == "old protocol" else "PICKLE_REFUSED"
    with pytest.raises(CheckpointError) as raised:
        Pickles(allowed).decode([text])
    assert raised.value.code == f"KEYSTATE_{wanted}"
    assert not victim.exists()


@pytest.mark.parametrize(
    "data",
    [b"\x80\x04]r\xff\xff\xff\x7f.", b"\x80\x04" + b"(" * 1000, b"\x80\x02\x82\x01.", b"\x80"],
    ids=["memo", "cut off", "extension", "nothing"],
)
def test_without_the_setting_no_pickle_is_read(data: bytes, monkeypatch: Any) -> None:
    monkeypatch.setattr("keystate._worker.pickles.pickled._Unpickler", None)
    with pytest.raises(
        CheckpointError, match=r"KEYSTATE_PICKLE_REFUSED.*a pickle of an unknown class"
    ):
        Pickles().decode([base64.b64encode(data).decode()])


def test_other_classes_need_the_setting() -> None:
    with pytest.raises(StateTypeError) as refused:
        Pickles().encode([1, [Cart(3)]])
    assert str(refused.value) == (
        "[KEYSTATE_PICKLE_REFUSED] snapshot_state() returned an element of the list of a "
        f"ListCheckpointed function (state '$list') with {HERE}.Cart, which a restart would not "
        "read: return plain data (numbers, strings, lists, dicts, dates, Rows), or add the class "
        "to spark.keystate.pickle.allow"
    )
    written = Pickles([f"{HERE}.Cart"]).encode([Cart(3)])
    for allowed in ([], [f"{HERE}.Line"], [HERE], [f"{HERE}.*"], ["Cart"], [f"{HERE}.Cart.Line"]):
        with pytest.raises(CheckpointError) as unread:
            Pickles(allowed).decode(written)
        assert str(unread.value) == (
            "[KEYSTATE_PICKLE_REFUSED] element 0 of the list of a ListCheckpointed function "
            f"(state '$list') in the checkpoint is a pickle of {HERE}.Cart. It is not read, for it "
            "could run anything. If the function put it there, and you trust all who can write "
            "into the checkpoint, add the class to spark.keystate.pickle.allow"
        )
        with pytest.raises(StateTypeError, match=r"with \S+\.Cart, which"):
            Pickles(allowed).encode([Cart(3)])
    assert Pickles([f"{HERE}.Cart"]).decode(written) == [Cart(3)]
    inner = Pickles([f"{HERE}.Cart.Line"])
    assert inner.decode(inner.encode([Cart.Line()])) == [Cart.Line()]


class Basket(list[Any]):
    def __init__(self, owner: str) -> None:
        self.owner, self.prices, self.me = owner, np.array([1.5, 2.5]), self


class Color(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


class Access(Flag):
    READ = 1
    WRITE = 2
    RUN = 4


@dataclass(frozen=True)
class Point:
    at: tuple[int, int]
    weight: np.float32


class Slots:
    __slots__ = ("a", "b")


class Named(NamedTuple):
    a: int
    b: Any


ALL = [f"{HERE}.{each}" for each in ("Basket", "Color", "Level", "Access", "Point", "Named")]


def test_objects_of_permitted_classes() -> None:
    """With what is plain in them, and with references to themselves."""
    pickles = Pickles(ALL)
    basket = Basket("me")
    basket += [Row(a=Color.RED, b=1), {Point((1, 2), np.float32(3)): Named(1, basket)}]
    (back,) = pickles.decode(pickles.encode([basket]))
    assert type(back) is Basket and back.me is back and back.owner == "me"
    assert back[:1] == basket[:1] and list(back[1]) == list(basket[1])
    assert back[1][Point((1, 2), np.float32(3))].b is back
    assert back.prices.tolist() == [1.5, 2.5]


def test_what_else_the_standard_library_has_can_be_named() -> None:
    pickles = Pickles(["collections.Counter"])
    assert pickles.decode(pickles.encode([Counter("aab")])) == [Counter("aab")]


@pytest.mark.parametrize(
    "member", [Color.RED, Level.LOW, Access.READ, Access.READ | Access.RUN, Access(0)], ids=repr
)
def test_members_of_a_permitted_enum(member: Enum) -> None:
    """All Pythons write them in one way, also 3.11.2, which would pickle a call of getattr."""
    with pytest.raises(StateTypeError, match=f"with {HERE}.{type(member).__name__}, which"):
        Pickles().encode([member])
    pickles = Pickles(ALL)
    (text,) = pickles.encode([member])
    assert b"getattr" not in base64.b64decode(text)
    assert pickles.decode([text]) == [member]


def test_a_class_whose_fields_change(monkeypatch: Any) -> None:
    """A field more has the class's default or none; a slot fewer is an error that says so."""
    pickles = Pickles([f"{HERE}.Point", f"{HERE}.Slots"])
    slots = Slots()
    slots.a = slots.b = 1
    point, of_slots = pickles.encode([Point((1, 2), np.float32(3)), slots])

    @dataclass(frozen=True)
    class Changed:
        at: tuple[int, int]
        color: str = "red"

    class Fewer:
        __slots__ = ("a",)

    monkeypatch.setitem(globals(), "Point", Changed)
    monkeypatch.setitem(globals(), "Slots", Fewer)
    (back,) = pickles.decode([point])
    assert type(back) is Changed and back == Changed((1, 2)) and back.weight == 3
    with pytest.raises(CheckpointError, match=r"CORRUPT_FILE.*AttributeError.*class in it has ch"):
        pickles.decode([of_slots])


class Proud:
    """Pickled by a function."""

    def __reduce__(self) -> Any:
        return crafted, (Path("x"),)


def test_what_a_restart_could_not_read_is_an_error_of_the_snapshot() -> None:
    itself: list[Any] = []
    itself.append(itself)
    allowed = [f"{HERE}.{name}" for name in ("Cart", "Proud", "crafted")]
    for element, message in (
        (itself, "containing itself"),
        (Proud(), f"with {HERE}.crafted, which is no class"),
        (crafted, f"with {HERE}.crafted, which is no class"),
        (len, "with builtins.len, which"),
        (Cart, None),
        (Cart(lambda: 1), "lambda"),  # type: ignore[arg-type]
        (type("Local", (), {})(), "Local"),
    ):
        pickles = Pickles(allowed)
        if message is None:
            assert pickles.decode(pickles.encode([element])) == [element]
            continue
        with pytest.raises(StateTypeError, match=message) as raised:
            pickles.encode([element])
        assert raised.value.code == "KEYSTATE_PICKLE_REFUSED"


def test_what_all_pickles_may_name_stays_as_it_is() -> None:
    """Attributes of it are set on a stand-in."""
    name = named("keystate._worker.pickles.plain_data", "decode")
    data = b"\x80\x04" + name + b"N}\x8c\x0c__defaults__K\x01\x85s\x86b."
    Pickles([f"{HERE}.Cart"]).decode([base64.b64encode(data).decode()])
    assert plain_data.decode.__defaults__ is None


def test_fuzz() -> None:
    """Damaged elements are errors with a name, or other plain data."""
    pickles = Pickles()
    state = OperatorListState(resolve_state(ValueStateDescriptor("v", "a long, b array<string>")))
    good = pickles.encode(PLAIN)
    state.update([(1, ["x", None]), (None, [])])
    arrow = state.encode()
    end = time.monotonic() + SECONDS
    seed = 0
    while seed < 200 or time.monotonic() < end:
        rng = random.Random(seed)
        for decode, texts in ((pickles.decode, good), (state.decode, arrow)):
            data = bytearray(base64.b64decode(rng.choice(texts)))
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                match rng.randrange(4):
                    case 0:
                        data[at] ^= 1 << rng.randrange(8)
                    case 1:
                        data[at] = rng.randrange(256)
                    case 2:
                        del data[at + 1 :]
                    case 3:
                        data[at:at] = rng.randbytes(rng.randint(1, 8))
            began = time.process_time()
            try:
                decode([base64.b64encode(data).decode()])
            except (CheckpointError, StateTypeError):
                pass
            except BaseException as e:
                raise AssertionError(f"seed {seed}: {bytes(data)!r}") from e
            assert time.process_time() - began < 60, seed  # keys of one hash would take days
        seed += 1


@pytest.mark.parametrize("number", [-1, 1 << 25, 1 << 30])
def test_no_length_in_an_element_is_believed(number: int) -> None:
    """Any two numbers become others: two that fit each other have ended the process."""
    state = OperatorListState(resolve_state(ValueStateDescriptor("v", "b array<string>")))
    state.update([(["x", None],)])
    good = base64.b64decode(*state.encode())
    wrong = (number % (1 << 32)).to_bytes(4, "little")
    small = [at for at in range(0, len(good), 4) if 0 < good[at] < 16]
    refused = 0
    for first, second in itertools.combinations(small, 2):
        damaged = bytearray(good)
        damaged[first : first + 4] = damaged[second : second + 4] = wrong
        try:
            state.decode([base64.b64encode(damaged).decode()])
        except (CheckpointError, StateTypeError):
            refused += 1
    assert refused > 100
