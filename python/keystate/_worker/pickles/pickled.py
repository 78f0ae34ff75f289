"""Elements of a ``ListCheckpointed`` function, which may be of any type, as text.

Plain data has a form of its own, which names nothing. Objects of classes that a setting permits are
pickles. A pickle can name any function and have it called while it is read, and whoever can write
into a checkpoint can put one there. So pickles are read by a reader that makes plain data, and
calls nothing but what the setting permits. Earlier builds wrote plain data as pickles too.
"""

from __future__ import annotations

import base64
import importlib
import io
import pickle
import sys
import types
from collections.abc import Iterable
from enum import Enum
from typing import Any

from keystate._worker.pickles import plain_data
from keystate._worker.pickles.pickle_reader import PickleReader, Refused
from keystate.errors import CheckpointError, StateTypeError

#: Classes and functions that pickles of a function's list may name, besides plain data's.
SETTING = "spark.keystate.pickle.allow"

_PROTOCOL = 4
_PICKLE = b"\x80"  # how pickles begin
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


class Pickles:
    """Reads and writes elements.

    Args:
        allowed: what may be named besides plain data: ``module.Class``, or ``module.*`` for all
            classes of a module and of those below it that are imported already.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        names = frozenset(allowed)
        self._names = {name for name in names if not name.endswith(".*")}
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
                    f"element {i} of the function's list in the "
                    f"checkpoint is a pickle with {e}. It is not read, for it could run anything. "
                    f"If the function put it there, add it to {SETTING}; else somebody else wrote "
                    "into the checkpoint",
                    code="KEYSTATE_PICKLE_REFUSED",
                ) from None
            except Exception as e:
                raise CheckpointError(
                    f"element {i} of the function's list in the checkpoint "
                    f"can't be read: {type(e).__name__}: {e}. Go on from an older checkpoint",
                    code="KEYSTATE_CORRUPT_FILE",
                ) from e
        return elements

    def _dump(self, element: Any) -> bytes:
        try:
            return plain_data.encode(element)
        except plain_data.NotPlain as e:
            if e.cls is None or not (self._names or self._modules):
                raise _unreadable(str(e), e.cls) from None
        stream = io.BytesIO()
        pickler = _Pickler(stream, protocol=_PROTOCOL)
        pickler.dump(element)
        # Whether it can be read is looked at once for each class.
        if not pickler.kinds <= self._written:
            try:
                self._load(stream.getvalue())
            except (Refused, ValueError) as e:
                raise _unreadable(str(e), str(e)) from None
            self._written |= pickler.kinds
        return stream.getvalue()

    def _load(self, data: bytes) -> Any:
        if data[:1] == _PICKLE:
            return PickleReader(data, self.find).read()
        return plain_data.decode(data)

    def find(self, module: str, name: str) -> Any:
        """What a pickle names, if that is permitted."""
        full = f"{module}.{name}"
        if full in self._names:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            return found
        if full.startswith(self._modules):
            # To import a module runs it, so a pickle may not choose one.
            if module not in sys.modules:
                raise Refused(
                    f"{full}, of a module that is not imported: the function's module must import "
                    "it, or the setting name the class itself"
                )
            found = getattr(sys.modules[module], name, None)
            # A module's names are what it has imported too.
            if isinstance(found, type) and f"{found.__module__}.".startswith(self._modules):
                return found
        raise Refused(full)


def _unreadable(what: str, cls: str | None) -> StateTypeError:
    setting = "" if cls is None else f", or set {SETTING} to {cls}"
    return StateTypeError(
        f"snapshot_state() returned an element with {what}, which a restart would not read: "
        f"return plain data (numbers, strings, lists, dicts, Rows){setting}",
        code="KEYSTATE_PICKLE_REFUSED",
    )


class _Pickler(pickle.Pickler):
    """Notes the classes of what is more than numbers, strings and containers.

    Arrays have the form of their own here too: numpy's would give it pointers and data types.
    """

    def __init__(self, stream: io.BytesIO, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.kinds: set[Any] = set()

    def reducer_override(self, obj: Any) -> Any:
        # What is written by its name is a kind of its own.
        self.kinds.add(obj if isinstance(obj, _NAMED) else type(obj))
        if plain_data.is_array(obj):
            return plain_data.decode, (plain_data.encode(obj),)
        if isinstance(obj, Enum):
            # By its value in all Pythons. Those from 3.11.0 to 3.11.3 write a call of getattr,
            # which no checkpoint may make.
            return type(obj), (obj.value,)
        return NotImplemented
