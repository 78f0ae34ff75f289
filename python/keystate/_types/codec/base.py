"""The base of all codecs, which read Arrow arrays."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from keystate._types.codec.foreign import of_python
from keystate._types.codec.misfits import Misfit, TooLarge

Form = Callable[[Any], Any]

NONE = type(None)

_EPOCH_TIMEZONE = "UTC"
# PySpark 4.1's function gets no zone, and takes this one.
_ARROW_OPTIONS: dict[str, Any] = (
    {"timezone": _EPOCH_TIMEZONE}
    if "timezone" in inspect.signature(to_arrow_type).parameters
    else {}
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """Which class the values of a type are of, where a user gave one.

    Attributes:
        cls: a struct's dataclass, or tuple for an array.
        parts: of a struct's fields, of an array's element, or of a map's key and value.
    """

    cls: type | None = None
    parts: tuple[Shape | None, ...] = ()

    def part(self, i: int) -> Shape | None:
        """The shape of a part."""
        return self.parts[i] if self.parts else None


PLAIN = Shape()


class Codec:
    """Converts values of one Spark type; this base those that pyarrow converts itself.

    Attributes:
        plain: values of exactly this class are read as they are written, without ``as_read``;
            ``None`` where the class is not enough. ``is_plain`` also checks for rare exceptions: a
            long of more than 64 bits, or a string that is no Unicode.
        as_key: converts a decoded value to the form in which a dictionary finds it: hashable, and
            the same for values that Spark holds equal. ``None`` if values already have this form.
        key_class: values of exactly this class are keys without conversion; others need ``key``.
        frozen: values of exactly this class never change, and can be encoded later; ``None`` where
            the class does not show that.
        naive: values of exactly this class are read as they are written if they have no zone and
            are not the second of two equal times (``fold``); ``None`` where that does not hold.
        mutable: whether a read value can change in place: lists, dicts, dataclasses, and values
            that contain one. Such a value is handed out only as a ``copy``.
        column: the column or field of the values, for messages; empty if there is none.
        runs_code: whether the user's code makes an input row's value, in ``made``.
    """

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        self.data_type = data_type
        self.arrow: pa.DataType = to_arrow_type(data_type, **_ARROW_OPTIONS)
        self._accepted = frozenset(accepted) | {NONE}
        self.plain: type | None = accepted[0] if len(accepted) == 1 else None
        self.as_key: Form | None = None
        self.key_class: type | None = accepted[0] if len(accepted) == 1 else None
        self.frozen: type | None = accepted[0] if len(accepted) == 1 else None
        self.naive: type | None = None
        self.mutable = False
        self.column = ""
        self.runs_code = False
        self.packed_reader: Callable[[bytes, int], Any] | None = None  # once there is one

    def decode(self, array: pa.Array) -> list[Any]:
        """Python values of an array; ``None`` for nulls."""
        values: list[Any] = array.to_pylist()
        return values

    def decode_keys(self, array: pa.Array) -> list[Any]:
        """Values of an array as a dictionary finds them."""
        values = self.decode(array)
        return values if self.as_key is None else list(map(self.as_key, values))

    def as_read(self, value: Any) -> Any:
        """The value that a read returns after this one is stored: ``3.0`` for ``3`` in a double.

        Raises:
            Misfit: the value does not fit the type.
        """
        if value is None or type(value) is self.plain:
            return value
        return self.decode(self.encode([value]))[0]

    def all_as_read(self, values: Sequence[Any]) -> list[Any]:
        """The results of ``as_read`` for many values, as a new list."""
        if self.plain is not None and set(map(type, values)) <= {self.plain, NONE}:
            return list(values)
        return list(map(self.as_read, values))

    def is_plain(self, value: Any) -> bool:
        """Whether a value is read as it is written, and fits."""
        return type(value) is self.plain

    def name_column(self, name: str) -> None:
        """Notes which column or field the values are of, also those within them."""
        self.column = name

    def made(self, value: Any) -> Any:
        """An input row's value, of one that was decoded without the user's classes."""
        return value

    def copy(self, value: Any) -> Any:
        """A copy of a value that was read, which may change without it."""
        return value

    def all_copied(self, values: Sequence[Any]) -> list[Any]:
        """Copies of many values that were read, as a new list."""
        return list(map(self.copy, values)) if self.mutable else list(values)

    def key(self, value: Any) -> Any:
        """A user's value in the form of ``as_key``, by which a dictionary finds it, or ``None``.

        Python holds ``True``, ``1`` and ``1.0`` equal. As keys they are what the type makes of
        them, or raise Misfit.
        """
        if value is None or type(value) is self.key_class:
            return value
        return self.as_read(value)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """The array of these values; raises Misfit for the first that does not fit."""
        if not self._accepted.issuperset(map(type, values)):
            values = [self._coerce(value) for value in values]
        try:
            array = pa.array(values, self.arrow)
        except pa.ArrowCapacityError:
            raise TooLarge(values, self.name) from None
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            self._blame(values)
            raise
        if isinstance(array, pa.ChunkedArray):
            raise TooLarge(values, self.name)
        return array

    def _coerce(self, value: Any) -> Any:
        """A value of an accepted type for one of another, or Misfit."""
        python = value if type(value) in self._accepted else of_python(value)
        if type(python) in self._accepted:
            return python
        for accepted in self._accepted - {NONE}:
            if isinstance(python, accepted) and not isinstance(python, bool):
                return python
        raise Misfit(value, self.name)

    def _blame(self, values: Iterable[Any]) -> None:
        for value in values:
            try:
                pa.array([value], self.arrow)
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                raise Misfit(value, self.name) from None

    @property
    def name(self) -> str:
        """The type's name in DDL."""
        return self.data_type.simpleString()


def validity(array: pa.Array) -> list[bool]:
    valid: list[bool] = array.is_valid().to_pylist()
    return valid


def with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        return [v if ok else None for v, ok in zip(values, validity(array))]
    return values


def offsets(array: pa.Array) -> list[int]:
    """Where an array's lists or strings begin and end.

    Arrow's buffer of it may be empty if there is none.
    """
    start, size = array.offset, len(array)
    if size == 0:
        return [0]
    view = memoryview(array.buffers()[1])[start * 4 : (start + size + 1) * 4]
    return view.cast("i").tolist()


def offsets_of(values: Sequence[Any]) -> pa.Array:
    lengths = (0 if v is None else len(v) for v in values)
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def mask_of(values: Sequence[Any]) -> pa.Array | None:
    return pa.array([v is None for v in values], pa.bool_()) if None in values else None
