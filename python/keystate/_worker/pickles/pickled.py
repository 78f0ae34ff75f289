"""Elements of a ``ListCheckpointed`` function, which may be of any type, as text.

Plain data has a form of its own, which names nothing. Objects of classes that a setting names are
pickles. A pickle can name any function and have it called while it is read, and whoever can write
into a checkpoint can put one there. So none is read without the setting, and with it a pickle may
name no more than these classes.
"""

from __future__ import annotations

import base64
import io
import pickle
import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import _create_row

from keystate._worker.pickles import plain_data
from keystate.errors import CheckpointError, StateTypeError

#: Classes that elements of a function's list may have besides plain data.
SETTING = "spark.keystate.pickle.allow"

_PICKLE = b"\x80"  # how pickles begin
#: A module and a name in it, as protocol 4 writes them, and as protocols before do.
_NAME = re.compile(
    rb"\x8c.([\w.]{1,200})\x94?\x8c.([\w.]{1,200})\x94?\x93|[ci]([\w.]{1,200})\n([\w.]{1,200})\n",
    re.DOTALL,
)
_LIST = "the list of a ListCheckpointed function (state '$list')"
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)

#: What all pickles may name: what plain data in them is made by.
_PLAIN = {f"{f.__module__}.{f.__qualname__}": f for f in (plain_data.decode, _create_row)}


class Refused(Exception):
    """A pickle names what is not permitted."""


class Pickles:
    """Reads and writes elements.

    Args:
        allowed: the classes that may be pickled, each as ``module.Class``.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(allowed)
        self._written: set[Any] = set()  # classes of which is known that they can be read

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
                    f"element {i} of {_LIST} in the checkpoint is a pickle of {e}. It is not "
                    "read, for it could run anything. If the function put it there, and you trust "
                    f"all who can write into the checkpoint, add the class to {SETTING}",
                    code="KEYSTATE_PICKLE_REFUSED",
                ) from None
            except Exception as e:
                raise CheckpointError(
                    f"element {i} of {_LIST} in the checkpoint can't be read: "
                    f"{type(e).__name__}: {e}. If a class in it has changed, let the class read "
                    "what it was, as by __setstate__; else go on from an older checkpoint",
                    code="KEYSTATE_CORRUPT_FILE",
                ) from e
        return elements

    def _dump(self, element: Any) -> bytes:
        try:
            return plain_data.encode(element)
        except plain_data.NotPlain as e:
            if e.cls is None or not self._allowed:
                raise _unreadable(str(e), e.cls is not None) from None
        stream = io.BytesIO()
        pickler = _Pickler(stream, protocol=4)
        try:
            pickler.dump(element)
            # Whether it can be read is looked at once for each class.
            if not pickler.kinds <= self._written:
                self._load(stream.getvalue())
        except Refused as e:
            raise _unreadable(str(e), True) from None
        except Exception as e:
            raise _unreadable(f"{type(e).__name__}: {e}", False) from e
        self._written |= pickler.kinds
        return stream.getvalue()

    def _load(self, data: bytes) -> Any:
        if data[:1] != _PICKLE:
            return plain_data.decode(data)
        if not self._allowed:
            raise Refused(_first_name(data))
        return _Unpickler(data, self._allowed).load()


def _unreadable(what: str, is_class: bool) -> StateTypeError:
    return StateTypeError(
        f"snapshot_state() returned an element of {_LIST} with {what}, which a restart would not "
        "read: return plain data (numbers, strings, lists, dicts, dates, Rows)"
        + (f", or add the class to {SETTING}" if is_class else ""),
        code="KEYSTATE_PICKLE_REFUSED",
    )


def _first_name(data: bytes) -> str:
    """The first class or function that a pickle seems to name, without reading it."""
    found = _NAME.search(data)
    parts = () if found is None else (part.decode() for part in found.groups() if part)
    return ".".join(parts) or "an unknown class"


class _Pickler(pickle.Pickler):
    """Notes the classes of what is more than numbers, strings and containers."""

    def __init__(self, stream: io.BytesIO, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.kinds: set[Any] = set()

    def reducer_override(self, obj: Any) -> Any:
        # What is written by its name is a kind of its own.
        self.kinds.add(obj if isinstance(obj, _NAMED) else type(obj))
        if isinstance(obj, Enum):
            # By its value in all Pythons. Those from 3.11.0 to 3.11.3 write a call of getattr,
            # which no checkpoint may make.
            return type(obj), (obj.value,)
        if isinstance(obj, Row):
            return NotImplemented
        try:
            # Dates and arrays have the form of plain data here too, so that they name nothing.
            return plain_data.decode, (plain_data.encode(obj),)
        except plain_data.NotPlain:
            return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Lets a pickle name only some classes."""

    def __init__(self, data: bytes, allowed: frozenset[str]) -> None:
        super().__init__(io.BytesIO(data), fix_imports=False)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        plain = _PLAIN.get(full)
        if plain is not None:
            # Not itself: a pickle can set attributes of what it names.
            return lambda *arguments: plain(*arguments)
        if full not in self._allowed:
            raise Refused(full)
        found = super().find_class(module, name)
        if not isinstance(found, type):
            raise Refused(f"{full}, which is no class")
        return found
