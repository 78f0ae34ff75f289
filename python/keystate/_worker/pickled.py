"""Elements of a ``ListCheckpointed`` function, which may be of any type, as pickles.

A pickle can name any function and have it called while it is read, and whoever can write into a
checkpoint can put one there. So those that name anything but plain data are refused, unless a
setting permits it.
"""

from __future__ import annotations

import base64
import importlib
import io
import pickle
import pickletools
import types
from collections.abc import Iterable
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from keystate.errors import CheckpointError, StateTypeError

#: Classes and functions that pickles of a function's list may name, besides plain data's.
SETTING = "spark.keystate.pickle.allow"

_PLAIN = frozenset(
    {
        *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str")),
        *(f"builtins.{name}" for name in ("complex", "frozenset", "set")),
        *(f"collections.{name}" for name in ("Counter", "OrderedDict", "defaultdict", "deque")),
        *(f"datetime.{name}" for name in ("date", "datetime", "time", "timedelta", "timezone")),
        "decimal.Decimal",
        "numpy._core.multiarray.scalar",
        "numpy.core.multiarray.scalar",
        "numpy.dtype",
        "pyspark.sql.types.Row",
        "pyspark.sql.types._create_row",
        "uuid.UUID",
        "zoneinfo.ZoneInfo",
    }
)


_PROTOCOL = 4
_NAMES = b"\x93"  # with which this protocol names classes and functions
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


class Refused(Exception):
    """A pickle names what is not permitted."""


class Pickles:
    """Reads and writes elements.

    Args:
        allowed: what may be named besides plain data: ``module.Class``, or ``module.*`` for all
            classes of a module and of those below it.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        names = frozenset(allowed)
        self._names = _PLAIN | {name for name in names if not name.endswith(".*")}
        self._modules = tuple(name[:-1] for name in names if name.endswith(".*"))
        self._written: set[Any] = set()  # of which is known that they can be read

    def encode(self, elements: Iterable[Any]) -> list[str]:
        """The elements as text.

        Raises:
            StateTypeError: one could not be read again.
        """
        return [base64.b64encode(self._dump(element)).decode() for element in elements]

    def decode(self, texts: Iterable[str]) -> list[Any]:
        """The elements in such texts.

        Raises:
            CheckpointError: one is damaged, or names what is not permitted.
        """
        elements = []
        for i, text in enumerate(texts):
            try:
                elements.append(self._load(base64.b64decode(text, validate=True)))
            except Refused as e:
                raise CheckpointError(
                    f"[KEYSTATE_PICKLE_REFUSED] element {i} of the function's list in the "
                    f"checkpoint is a pickle that names {e}, and reading it would run that. If the "
                    f"function put it there, add it to {SETTING}; else somebody else wrote into "
                    "the checkpoint"
                ) from None
            except Exception as e:
                raise CheckpointError(
                    f"[KEYSTATE_CORRUPT_FILE] element {i} of the function's list in the checkpoint "
                    f"can't be read: {type(e).__name__}: {e}. Go on from an older checkpoint"
                ) from e
        return elements

    def _dump(self, element: Any) -> bytes:
        data = pickle.dumps(element, protocol=_PROTOCOL)
        if _NAMES in data:
            self._check(element, data)
        return data

    def _check(self, element: Any, data: bytes) -> None:
        """Whether it can be read; looked at once for each class."""
        pickler = _Pickler(io.BytesIO(), protocol=_PROTOCOL)
        pickler.dump(element)
        if pickler.kinds <= self._written:
            return
        try:
            self._load(data)
        except Refused as e:
            raise StateTypeError(
                f"snapshot_state() returned an element with {e}, which a restart would not read: "
                "return plain data (numbers, strings, lists, dicts, Rows), or set "
                f"{SETTING} to {e}",
                code="KEYSTATE_PICKLE_REFUSED",
            ) from None
        self._written |= pickler.kinds

    def _load(self, data: bytes) -> Any:
        _check_memo(data)
        return _Unpickler(io.BytesIO(data), self).load()

    def find(self, module: str, name: str) -> Any:
        """What a pickle names, if that is permitted."""
        full = f"{module}.{name}"
        if full in _REPLACED:
            return _REPLACED[full]
        if full in self._names:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            return found
        if full.startswith(self._modules):
            found = getattr(importlib.import_module(module), name, None)
            # A module's names are what it has imported too.
            if isinstance(found, type) and f"{found.__module__}.".startswith(self._modules):
                return found
        raise Refused(full)


def _attribute(owner: Any, name: str) -> Any:
    """The one that time zones are pickled with."""
    if owner is ZoneInfo and name == "_unpickle":
        return getattr(owner, name)
    raise Refused(f"builtins.getattr of {name}")


def _bytearray(*data: Any) -> bytearray:
    """Of what there is: a number would be a length."""
    if any(isinstance(part, int) for part in data):
        raise Refused("builtins.bytearray of a number")
    return bytearray(*data)


def _fraction(*parts: Any) -> Fraction:
    """Without an exponent, which a few bytes would make into a number without end."""
    if any(isinstance(part, str) and "e" in part.lower() for part in parts):
        raise Refused("fractions.Fraction with an exponent")
    return Fraction(*parts)


_REPLACED: dict[str, Any] = {
    "builtins.bytearray": _bytearray,
    "builtins.getattr": _attribute,
    "fractions.Fraction": _fraction,
}


def _check_memo(data: bytes) -> None:
    """Refuses numbers of remembered objects that no pickle of this length has.

    Python's unpickler makes room for as many as it is told. Protocol 4, which Keystate writes, has
    no such numbers, so the look through the operations is for others.
    """
    if b"r" in data or b"p" in data:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name in ("PUT", "LONG_BINPUT") and (argument or 0) > len(data):
                raise pickle.UnpicklingError(f"there is no object {argument}")


class _Pickler(pickle.Pickler):
    """Notes the classes of what is more than numbers, strings and containers."""

    def __init__(self, stream: io.BytesIO, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.kinds: set[Any] = set()

    def reducer_override(self, obj: Any) -> Any:
        # What is written by its name is a kind of its own.
        self.kinds.add(obj if isinstance(obj, _NAMED) else type(obj))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, pickles: Pickles) -> None:
        super().__init__(stream)
        self._pickles = pickles

    def find_class(self, module: str, name: str) -> Any:
        return self._pickles.find(module, name)
