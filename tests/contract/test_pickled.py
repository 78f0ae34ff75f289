"""Elements of ListCheckpointed functions: what a checkpoint may make Python do."""

from __future__ import annotations

import base64
import datetime
import itertools
import os
import pickle
import random
import time
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from keystate import CheckpointError, StateTypeError, ValueStateDescriptor
from keystate._codec.rows import row_maker
from keystate._spec import resolve_state
from keystate._worker.operator_state.operator_states import OperatorListState
from keystate._worker.pickles.pickled import Pickles
from pyspark.sql import Row

SECONDS = float(os.environ.get("KEYSTATE_FUZZ_SECONDS", 600 if "SLOW" in os.environ else 8)) / 8


class Cart:
    def __init__(self, items: int) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cart) and other.items == self.items

    class Line:
        """A class within another."""


PLAIN = [
    None,
    True,
    1,
    1 << 80,
    1.5,
    "text",
    b"bytes",
    bytearray(b"more"),
    [1, "a", (2, {3: [4]})],
    {"a": {1, 2}, "b": frozenset((3,))},
    complex(1, 2),
    Decimal("1.50"),
    Fraction(1, 3),
    uuid.UUID(int=7),
    datetime.date(2024, 1, 2),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 1, 2, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime.time(1, 2),
    datetime.timedelta(days=1),
    OrderedDict(a=1),
    Counter("aab"),
    defaultdict(list, a=[1]),
    deque([1, 2], maxlen=3),
    Row(a=1, b="x"),
    row_maker(("n", "m"))((1, 2)),
    np.int64(3),
    np.float32(1.5),
]


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_data(value: Any, protocol: int) -> None:
    pickles = Pickles()
    (back,) = pickles.decode(pickles.encode([value]))
    assert back == value and type(back).__name__ == type(value).__name__
    old = base64.b64encode(pickle.dumps([value], protocol=protocol)).decode()
    assert pickles.decode([old]) == [[value]]


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


def build(module: str, cls: str) -> bytes:
    """Sets an attribute of a class."""
    return b"\x80\x04" + named(module, cls) + b"N}\x8c\x03oopK\x01s\x86b."


def one_hash(number: int) -> list[bytes]:
    """Numbers."""
    return [b"\x8a\x0b" + (i * ((1 << 61) - 1)).to_bytes(11, "little") for i in range(number)]


def shared_tuples(last: bytes, first: bytes = b"(", end: bytes = b"") -> bytes:
    """A tuple of two times the tuple before, which is of two ..."""
    pairs = b"".join(b"\x940h" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(40))
    return b"\x80\x04" + first + b")" + pairs + last + end + b"."


def crafted(path: Path) -> dict[str, bytes]:
    """Pickles that would make this file."""
    touch = f"open({str(path)!r}, 'w')"
    # What is remembered as 0 and 1: a class, and a dict with 5,000 keys.
    pairs = b"".join(b"M" + i.to_bytes(2, "little") + b"N" for i in range(5_000))
    large = named("collections", "Counter") + b"\x94}\x94(" + pairs + b"u"
    return {
        "os.system": pickle.dumps(Crafted(os.system, f"touch {path}")),
        "eval": pickle.dumps([{"deep": Crafted(eval, touch)}]),
        "open": pickle.dumps(Crafted(open, str(path), "w")),
        "old protocol": f"cos\nsystem\n(S'touch {path}'\ntR.".encode(),
        "getattr": pickle.dumps([Crafted(getattr, [], "__class__")]),
        "path of names": b"\x80\x04\x8c\x07decimal\x8c\x0esys.modules.get\x93.",
        "a class's method": b"\x80\x04\x8c\x08builtins\x8c\x0adict.clear\x93.",
        "bytearray of a length": pickle.dumps(Crafted(bytearray, 1 << 40)),
        "fraction without end": pickle.dumps(Crafted(Fraction, "1e9999999999")),
        "int without end": pickle.dumps(Crafted(int, Decimal("1E+2000000"))),
        "fraction of a decimal": pickle.dumps(Crafted(Fraction, Decimal("1E+2000000"))),
        "tuples without end": shared_tuples(b"\x91"),
        "tuples without end as a key": shared_tuples(b"", b"}", b"K\x01s"),
        "tuples for C's stack": b"\x80\x04})" + b"\x85" * 200_000 + b"K\x01s.",
        "keys of one hash": b"\x80\x04\x8f(" + b"".join(one_hash(20_000)) + b"\x90.",
        "copies": b"\x80\x04(" + large + b"".join([b"h\x00h\x01\x85R0"] * 5_000) + b"N.",
        "attributes of Counter": build("collections", "Counter"),
        "attributes of Row": build("pyspark.sql.types", "Row"),
        "dtype with objects": pickle.dumps(np.dtype([("a", object)])),
        "array with objects": pickle.dumps(np.zeros(1, [("a", object)])[0]),
        "dtype of 2 GB": pickle.dumps(np.dtype("V2000000000")),
        "dtype of flags": pickle.dumps(np.int64(1), 4).replace(b"K\x00t", b"K\x3ft"),
        "date of no calendar": pickle.dumps(datetime.datetime(2024, 1, 2), 4).replace(
            b"C\x0a\x07\xe8\x01\x02", b"C\x0a\x07\xe8\x01\xff"
        ),
        "memo": b"]r\xff\xff\xff\x7f.",
        "extension": b"\x80\x02\x82\x01.",
        "persistent": b"P1\n.",
    }


@pytest.mark.parametrize("name", crafted(Path("x")))
def test_what_would_run_is_refused(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    text = base64.b64encode(crafted(victim)[name]).decode()
    with pytest.raises(CheckpointError, match=r"KEYSTATE_PICKLE_REFUSED|KEYSTATE_CORRUPT_FILE"):
        Pickles().decode([text])
    assert not victim.exists()
    assert not hasattr(Counter, "oop") and not hasattr(Row, "oop")


def test_other_classes_need_the_setting() -> None:
    with pytest.raises(StateTypeError, match=r"spark\.keystate\.pickle\.allow.*test_pickled\.Cart"):
        Pickles().encode([1, [Cart(3)]])
    here = __name__
    written = Pickles([f"{here}.Cart"]).encode([Cart(3)])
    with pytest.raises(CheckpointError, match=r"\[KEYSTATE_PICKLE_REFUSED\] element 0 .*Cart"):
        Pickles().decode(written)
    assert Pickles([f"{here}.Cart"]).decode(written) == [Cart(3)]
    assert Pickles([f"{here}.*"]).decode(written) == [Cart(3)]


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


class Named(NamedTuple):
    a: int
    b: Any


def test_objects_of_permitted_classes() -> None:
    """With what is plain in them, and with references to themselves."""
    pickles = Pickles([f"{__name__}.*"])
    basket = Basket("me")
    basket += [Decimal("1.5"), Color.RED, {Point((1, 2), np.float32(3)): Named(1, basket)}]
    (back,) = pickles.decode(pickles.encode([basket]))
    assert type(back) is Basket and back.me is back and back.owner == "me"
    assert back[:2] == basket[:2] and list(back[2]) == list(basket[2])
    assert back[2][Point((1, 2), np.float32(3))].b is back
    assert back.prices.tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    "member", [Color.RED, Level.LOW, Access.READ, Access.READ | Access.RUN, Access(0)], ids=repr
)
def test_members_of_a_permitted_enum(member: Enum) -> None:
    """All Pythons write them in one way, also 3.11.2, which would pickle a call of getattr."""
    pickles = Pickles([f"{__name__}.*"])
    (text,) = pickles.encode([member])
    assert b"getattr" not in base64.b64decode(text)
    assert pickles.decode([text]) == [member]


def test_attributes_of_a_permitted_class_stay() -> None:
    for state in (build(__name__, "Cart"), build(__name__, "Color")):
        with pytest.raises(CheckpointError, match=r"KEYSTATE_PICKLE_REFUSED.*a change of C"):
            Pickles([f"{__name__}.*"]).decode([base64.b64encode(state).decode()])
    other = b"\x80\x04" + named(__name__, "Cart") + b")\x81N}\x8c\x09__class__"
    other += named(__name__, "Basket") + b"s\x86b."
    with pytest.raises(CheckpointError, match=r"KEYSTATE_PICKLE_REFUSED.*a change of __class__"):
        Pickles([f"{__name__}.*"]).decode([base64.b64encode(other).decode()])
    one = b"\x80\x04" + named(__name__, "Color") + b"K\x01\x85RN}\x8c\x06_name_Ns\x86b."
    with pytest.raises(CheckpointError, match=r"KEYSTATE_PICKLE_REFUSED.*a change of Color"):
        Pickles([f"{__name__}.*"]).decode([base64.b64encode(one).decode()])


def test_a_module_is_not_imported_to_look_for_a_class(tmp_path: Path, monkeypatch: Any) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "shop_of_pickles").mkdir()
    (tmp_path / "shop_of_pickles/clean_up.py").write_text(
        f"open({str(victim)!r}, 'w')\nclass Cart:\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = "shop_of_pickles.clean_up"
    text = base64.b64encode(b"\x80\x04" + named(module, "Cart") + b")\x81.").decode()
    with pytest.raises(CheckpointError, match=r"KEYSTATE_PICKLE_REFUSED.*Cart.*not imported"):
        Pickles(["shop_of_pickles.*"]).decode([text])
    assert not victim.exists()
    (cart,) = Pickles([f"{module}.Cart"]).decode([text])
    assert victim.exists(), "a class that is named itself is looked for"
    assert type(Pickles(["shop_of_pickles.*"]).decode([text])[0]) is type(cart)


def test_what_contains_itself_is_an_error() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for allowed in ([], [f"{__name__}.*"]):
        with pytest.raises(StateTypeError, match="containing itself") as raised:
            Pickles(allowed).encode([itself])
        assert raised.value.code == "KEYSTATE_PICKLE_REFUSED"


def test_functions_are_looked_at_one_by_one() -> None:
    pickles = Pickles(["os.path.join"])
    pickles.encode([os.path.join] if os.path.join.__module__ == "os.path" else [])
    for function in (os.system, os.getcwd, len):
        with pytest.raises(StateTypeError):
            pickles.encode([function])


@pytest.mark.parametrize(
    "name", ["os\x00.system", "os", "os.system", "Cart.Line", "Path", "pickle.Unpickler", "crafted"]
)
def test_a_module_that_is_permitted_is_its_classes(name: str) -> None:
    """Not what it has imported, and no function."""
    data = b"\x80\x04" + named(__name__, name) + b"."
    with pytest.raises(CheckpointError):
        Pickles([f"{__name__}.*"]).decode([base64.b64encode(data).decode()])


def test_fuzz() -> None:
    """Damaged elements are errors with a name, or other plain data."""
    pickles = Pickles()
    state = OperatorListState(resolve_state(ValueStateDescriptor("v", "a long, b array<string>")))
    good = pickles.encode(PLAIN)
    old = [base64.b64encode(pickle.dumps(v, protocol=4)).decode() for v in PLAIN]
    state.update([(1, ["x", None]), (None, [])])
    arrow = state.encode()
    end = time.monotonic() + SECONDS
    seed = 0
    while seed < 200 or time.monotonic() < end:
        rng = random.Random(seed)
        for decode, texts in (
            (pickles.decode, good),
            (pickles.decode, old),
            (state.decode, arrow),
        ):
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


NAMES = [
    *(("builtins", each) for each in ("int", "list", "getattr", "bytearray", "complex", "eval")),
    *(("collections", each) for each in ("Counter", "OrderedDict", "defaultdict", "deque")),
    *(("datetime", each) for each in ("date", "datetime", "time", "timedelta", "timezone")),
    *(("numpy", "dtype"), ("numpy._core.multiarray", "scalar"), ("numpy", "ndarray")),
    *(("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID")),
    *(("zoneinfo", "ZoneInfo"), ("pyspark.sql.types", "Row")),
    ("pyspark.sql.types", "_create_row"),
    *((__name__, each) for each in ("Cart", "Basket", "Color", "Point", "Named", "crafted")),
]
PIECES = [
    *(bytes([each]) for each in b"])}(tlusaebR0125N\x81\x85\x86\x87\x88\x8f\x90\x91\x92\x94"),
    *(b"h" + bytes([i]) for i in range(4)),
    *(
        b"K\x07",
        b"J\xff\xff\xff\xff",
        b"G" + bytes(8),
        b"C\x02ab",
        b"\x8c\x02i8",
        b"\x8a\x09" + b"\x7f" * 9,
    ),
    *(pickle.dumps(v, protocol=4)[11:-1] for v in PLAIN[1:] if len(pickle.dumps(v)) > 40),
]


def test_pickles_of_any_operations() -> None:
    """They are read or refused, and change nothing but what they make."""
    classes = (Counter, OrderedDict, defaultdict, deque, Row, Cart, Basket, Color, Point, Named)
    before = [dict(vars(cls)) for cls in classes]
    names = [named(*each) for each in NAMES]
    end = time.monotonic() + SECONDS
    seed = read = 0
    while seed < 5_000 or time.monotonic() < end:
        rng = random.Random(seed)
        pieces = rng.choices([*PIECES, *names], k=rng.randint(1, 12))
        data = b"\x80\x04" + b"".join(pieces) + b"."
        try:
            Pickles([f"{__name__}.*"] if seed % 2 else []).decode([base64.b64encode(data).decode()])
            read += 1
        except CheckpointError:
            pass
        except BaseException as e:
            raise AssertionError(f"seed {seed}: {data!r}") from e
        seed += 1
    assert read > 10, "some of them must be pickles"
    assert [dict(vars(cls)) for cls in classes] == before
