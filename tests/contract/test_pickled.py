"""Elements of ListCheckpointed functions: what a checkpoint may make Python do."""

from __future__ import annotations

import base64
import datetime
import os
import pickle
import random
import time
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from keystate import CheckpointError, StateTypeError, ValueStateDescriptor
from keystate._codec.rows import row_maker
from keystate._spec import resolve_state
from keystate._worker.instance_state import InstanceListState
from keystate._worker.pickled import Pickles
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


def crafted(path: Path) -> dict[str, bytes]:
    """Pickles that would make this file."""
    touch = f"open({str(path)!r}, 'w')"
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


def test_other_classes_need_the_setting() -> None:
    with pytest.raises(StateTypeError, match=r"spark\.keystate\.pickle\.allow.*test_pickled\.Cart"):
        Pickles().encode([1, [Cart(3)]])
    here = __name__
    written = Pickles([f"{here}.Cart"]).encode([Cart(3)])
    with pytest.raises(CheckpointError, match=r"\[KEYSTATE_PICKLE_REFUSED\] element 0 .*Cart"):
        Pickles().decode(written)
    assert Pickles([f"{here}.Cart"]).decode(written) == [Cart(3)]
    assert Pickles([f"{here}.*"]).decode(written) == [Cart(3)]


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
    module, text = __name__.encode(), name.encode()
    data = b"\x80\x04\x8c" + bytes([len(module)]) + module
    data += b"\x8c" + bytes([len(text)]) + text + b"\x93."
    with pytest.raises(CheckpointError):
        Pickles([f"{__name__}.*"]).decode([base64.b64encode(data).decode()])


def test_fuzz() -> None:
    """Damaged elements are errors with a name, or other plain data."""
    pickles = Pickles()
    state = InstanceListState(resolve_state(ValueStateDescriptor("v", "a long, b array<string>")))
    good = pickles.encode(v for v in PLAIN if not isinstance(v, (np.generic,)))
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
            began = time.monotonic()
            try:
                decode([base64.b64encode(data).decode()])
            except (CheckpointError, StateTypeError):
                pass
            except BaseException as e:
                raise AssertionError(f"seed {seed}: {bytes(data)!r}") from e
            assert time.monotonic() - began < 20, seed
        seed += 1
