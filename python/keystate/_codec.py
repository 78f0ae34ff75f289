"""Conversion between Arrow arrays and Python values, a whole column at a time.

Python values are what PySpark's own rows hold: ``int``, ``float``, ``str``, ``bytes``, ``bool``,
``Decimal``, ``date``, naive local ``datetime`` for timestamps, ``list``, ``dict``, and
:mod:`rows <keystate._rows>` or dataclasses for structs. Encoding checks types: a value that Spark
would have to guess about, such as ``True`` for a long, raises :class:`Misfit`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from keystate._rows import row_class, row_maker

Form = Callable[[Any], Any]

_NONE = type(None)
_NAN = float("nan")
_EPOCH_TIMEZONE = "UTC"


class Misfit(TypeError):
    """A value does not fit its type."""

    def __init__(self, value: Any, expected: str, where: str = "") -> None:
        self.value = value
        self.expected = expected
        self.where = where
        super().__init__(value, expected, where)

    def within(self, place: str) -> Misfit:
        """The same, seen from the value around it."""
        where = f"{place}, {self.where}" if self.where else place
        return type(self)(self.value, self.expected, where)

    def __str__(self) -> str:
        got = f"{type(self.value).__name__} {shorten(self.value)}"
        return f"expected {self.expected}{' at ' + self.where if self.where else ''}, got {got}"


class TooLarge(Misfit):
    """Values fit their type, but there is more of them than one message can hold."""

    def __str__(self) -> str:
        size = sum(len(value) for value in self.value if value is not None)
        return (
            f"{len(self.value)} {self.expected} values with {size:,} bytes or characters, where at "
            "most 2 GB can be sent at a time"
        )


def shorten(value: Any) -> str:
    """The value's repr, or the start of it, for a message."""
    text = repr(value[:100] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= 100 else text[:97] + "..."


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


_PLAIN = Shape()


class Codec:
    """Converts values of one Spark type; this base those that pyarrow converts itself.

    Attributes:
        plain: values of just this class are read as they are written, so ``as_read`` need not be
            asked; ``None`` where more than the class counts. What only few of them are, a long
            of more than 64 bits or a string that is no Unicode, is left to ``encode`` to refuse.
        as_key: gives a value that was decoded the form in which a dictionary finds it: hashable,
            and the same for values that Spark holds equal. ``None`` where that is so already.
        key_class: values of just this class are keys as they are; for others ask ``key``.
    """

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        self.data_type = data_type
        self.arrow: pa.DataType = to_arrow_type(data_type, timezone=_EPOCH_TIMEZONE)
        self._accepted = frozenset(accepted) | {_NONE}
        self.plain: type | None = accepted[0] if len(accepted) == 1 else None
        self.as_key: Form | None = None
        self.key_class: type | None = accepted[0] if len(accepted) == 1 else None

    def decode(self, array: pa.Array) -> list[Any]:
        """Python values of an array; ``None`` for nulls."""
        values: list[Any] = array.to_pylist()
        return values

    def as_read(self, value: Any) -> Any:
        """What will be read when this value was stored: ``3`` in a double is ``3.0`` at once.

        Raises:
            Misfit: the value does not fit the type.
        """
        if value is None or type(value) is self.plain:
            return value
        return self.decode(self.encode([value]))[0]

    def all_as_read(self, values: Sequence[Any]) -> list[Any]:
        """The same of many values, as a new list."""
        if self.plain is not None and set(map(type, values)) <= {self.plain, _NONE}:
            return list(values)
        return list(map(self.as_read, values))

    def key(self, value: Any) -> Any:
        """What a dictionary finds a user's value by, as ``as_key``; ``None`` stays.

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
        if type(value) in self._accepted:
            return value
        for accepted in self._accepted - {_NONE}:
            if isinstance(value, accepted) and not isinstance(value, bool):
                return value
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


class _Fixed(Codec):
    """Numbers: decoded straight from the array's buffer."""

    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], letter: str, width: int
    ) -> None:
        super().__init__(data_type, accepted)
        self._letter = letter
        self._width = width

    def decode(self, array: pa.Array) -> list[Any]:
        size = len(array)
        if array.null_count == size:
            return [None] * size
        start, width = array.offset, self._width
        view = memoryview(array.buffers()[1])[start * width : (start + size) * width]
        values: list[Any] = view.cast(self._letter).tolist()  # type: ignore[call-overload]
        if array.null_count:
            return [v if ok else None for v, ok in zip(values, _validity(array))]
        return values


class _Integer(_Fixed):
    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], letter: str, width: int
    ) -> None:
        super().__init__(data_type, accepted, letter, width)
        self.highest = 2 ** (8 * width - 1) - 1
        self.lowest = -self.highest - 1
        if width < 8:
            self.plain = None

    def as_read(self, value: Any) -> Any:
        value = self._coerce(value)
        if value is not None and not self.lowest <= value <= self.highest:
            raise Misfit(value, self.name)
        return value

    def key(self, value: Any) -> Any:
        return self.as_read(value)

    def all_as_read(self, values: Sequence[Any]) -> list[Any]:
        all_int = set(map(type, values)) == {int}
        if all_int and self.lowest <= min(values) and max(values) <= self.highest:
            return list(values)
        return list(map(self.as_read, values))

    def _coerce(self, value: Any) -> Any:
        if type(value) is int or value is None:
            return value
        # numpy's integers and the like; a bool is an int to Python but not a number to Spark.
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise Misfit(value, self.name)
        if type(value).__name__ in ("bool_", "bool"):
            raise Misfit(value, self.name)
        return value.__index__()


class _Float(_Fixed):
    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], letter: str, width: int
    ) -> None:
        super().__init__(data_type, accepted, letter, width)
        self.as_key = self._form = _double_key if letter == "d" else _float_key
        self.key_class = None
        self._is_double = letter == "d"
        if not self._is_double:
            self.plain = None

    def as_read(self, value: Any) -> Any:
        value = self._coerce(value)
        return value if value is None or self._is_double else ctypes.c_float(value).value

    def key(self, value: Any) -> Any:
        return None if value is None else self._form(self._coerce(value))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        if not kinds <= {float, _NONE}:
            values = [self._coerce(value) for value in values]
        return pa.array(values, self.arrow)

    def _coerce(self, value: Any) -> Any:
        if value is None or type(value) is float:
            return value
        if isinstance(value, (bool, str, bytes, Decimal)) or not hasattr(value, "__float__"):
            raise Misfit(value, self.name)
        if type(value).__name__ == "bool_":
            raise Misfit(value, self.name)
        try:
            return float(value)
        except OverflowError:
            raise Misfit(value, self.name) from None


def _double_key(value: float | None) -> float | None:
    # Every NaN is one key, which a dictionary finds only as one object, and -0.0 is 0.0.
    return None if value is None else _NAN if value != value else value + 0.0


def _float_key(value: float | None) -> float | None:
    return None if value is None else _double_key(ctypes.c_float(value).value)


class _String(Codec):
    def decode(self, array: pa.Array) -> list[Any]:
        if array.null_count or array.type != pa.string() or len(array) == 0:
            return super().decode(array)
        at, data = offsets(array), array.buffers()[2]
        if data is None:
            return [""] * len(array)
        first = at[0]
        try:
            text = str(memoryview(data)[first : at[-1]], "ascii")
        except UnicodeDecodeError:
            return super().decode(array)
        return [text[a - first : b - first] for a, b in pairwise(at)]


class _Binary(Codec):
    def encode(self, values: Sequence[Any]) -> pa.Array:
        return super().encode(
            [bytes(v) if isinstance(v, (bytearray, memoryview)) else v for v in values]
        )


class _Date(Codec):
    def _coerce(self, value: Any) -> Any:
        # A datetime is a date to Python, but its time of day would be lost.
        if isinstance(value, datetime.datetime):
            raise Misfit(value, self.name)
        return super()._coerce(value)


class _Decimal(Codec):
    """Decimals are read with their type's scale: of ``1`` in a decimal(10,2) is read ``1.00``."""

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        super().__init__(data_type, accepted)
        assert isinstance(data_type, T.DecimalType)
        self.plain = self.key_class = None
        self._unit = Decimal(1).scaleb(-data_type.scale)
        self._bound = Decimal(1).scaleb(data_type.precision - data_type.scale)

    def as_read(self, value: Any) -> Any:
        if value is None:
            return None
        given = self._coerce(value)
        try:
            value = given.quantize(self._unit, context=_EXACT)
        except DecimalException:
            raise Misfit(given, self.name) from None
        if value.is_nan() or not -self._bound < value < self._bound:
            raise Misfit(given, self.name)
        return value if value else value.copy_abs()

    def _coerce(self, value: Any) -> Any:
        return Decimal(value) if type(value) is int else super()._coerce(value)


#: Digits that would be lost are an error.
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])


class _Naive(Codec):
    """Times without a zone: an aware one would have to be converted to some zone, or stripped."""

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        super().__init__(data_type, accepted)
        self.plain = self.key_class = None
        self._class: Any = accepted[0]

    def as_read(self, value: Any) -> Any:
        if type(value) is self._class and not value.fold and value.tzinfo is None:
            return value
        return super().as_read(value)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if getattr(value, "tzinfo", None) is not None:
                raise Misfit(value, f"{self.name} (without a time zone)")
        return super().encode(values)


class _Later(datetime.datetime):
    """The second of two instants that have one local time, when clocks are set back.

    Python compares local times alone, so both would be one key, and in no order.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, datetime.datetime) and _instant(self) == _instant(other)

    def __lt__(self, other: Any) -> bool:
        return _instant(self) < _instant(other)

    def __le__(self, other: Any) -> bool:
        return _instant(self) <= _instant(other)

    def __gt__(self, other: Any) -> bool:
        return _instant(self) > _instant(other)

    def __ge__(self, other: Any) -> bool:
        return _instant(self) >= _instant(other)

    __hash__ = datetime.datetime.__hash__


def _instant(time: datetime.datetime) -> tuple[float, int]:
    # Whole seconds: as a float, a timestamp with its microseconds would not be exact.
    return time.replace(microsecond=0).timestamp(), time.microsecond


def _later(value: datetime.datetime | None) -> datetime.datetime | None:
    if value is None or not value.fold:
        return value
    return _Later(*value.timetuple()[:6], value.microsecond, fold=1)


class _Timestamp(Codec):
    """Naive local datetimes, as PySpark's rows have them; aware ones are accepted."""

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        super().__init__(data_type, accepted)
        self.plain = None
        self.as_key = _later
        self.key_class = None

    def as_read(self, value: Any) -> Any:
        # Of a time that clocks skip or that comes twice, what is read may look otherwise.
        return _local(self._micros(value))

    def key(self, value: Any) -> Any:
        return _later(_local(self._micros(value)))

    def decode(self, array: pa.Array) -> list[Any]:
        return list(map(_local, _LONG.decode(array.cast(pa.int64()))))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([self._micros(v) for v in values], pa.int64()).cast(self.arrow)

    def _micros(self, value: Any) -> int | None:
        if value is None:
            return None
        if not isinstance(value, datetime.datetime):
            raise Misfit(value, self.name)
        try:
            seconds = int(_instant(value)[0])
        except (OverflowError, ValueError):
            raise Misfit(value, self.name) from None
        return seconds * 1_000_000 + value.microsecond


def _local(micros: int | None) -> datetime.datetime | None:
    if micros is None:
        return None
    local = datetime.datetime.fromtimestamp(micros // 1_000_000)
    return local.replace(microsecond=micros % 1_000_000)


class _Array(Codec):
    def __init__(self, data_type: T.ArrayType, shape: Shape) -> None:
        super().__init__(data_type, (list, tuple))
        self._element = codec(data_type.elementType, shape.part(0))
        self._nullable = data_type.containsNull
        self._make: Callable[[Any], Any] = tuple if shape.cls is tuple else list
        self.plain = None
        self.as_key = self._as_key
        self.key_class = None

    def _as_key(self, value: Any) -> Any:
        form = self._element.as_key
        return None if value is None else tuple(value if form is None else map(form, value))

    def key(self, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise Misfit(value, self.name)
        try:
            return tuple(map(self._element.key, value))
        except Misfit as e:
            raise e.within("an element of the array") from None

    def as_read(self, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise Misfit(value, self.name)
        if not self._nullable and None in value:
            raise Misfit(None, f"{self._element.name}, not null,", "an element of the array")
        try:
            elements = self._element.all_as_read(value)
        except Misfit as e:
            raise e.within("an element of the array") from None
        return elements if self._make is list else self._make(elements)

    def decode(self, array: pa.Array) -> list[Any]:
        at = offsets(array)
        values = self._element.decode(array.values.slice(at[0], at[-1] - at[0]))
        first = at[0]
        lists: list[Any] = [values[a - first : b - first] for a, b in pairwise(at)]
        if self._make is not list:
            lists = list(map(self._make, lists))
        return _with_nulls(lists, array)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if value is not None and not isinstance(value, (list, tuple)):
                raise Misfit(value, self.name)
        flat = list(chain.from_iterable(v for v in values if v is not None))
        if not self._nullable and None in flat:
            raise Misfit(None, f"{self._element.name}, not null,", "an element of the array")
        try:
            elements = self._element.encode(flat)
        except Misfit as e:
            raise e.within("an element of the array") from None
        return pa.ListArray.from_arrays(
            _offsets_of(values), elements, type=self.arrow, mask=_mask(values)
        )


class _Map(Codec):
    def __init__(self, data_type: T.MapType, shape: Shape) -> None:
        super().__init__(data_type, (dict,))
        self._key = codec(data_type.keyType, shape.part(0))
        self._value = codec(data_type.valueType, shape.part(1))
        self._nullable = data_type.valueContainsNull
        self.plain = None

    def as_read(self, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Misfit(value, self.name)
        if None in value:
            raise Misfit(None, self._key.name, "a key of the map")
        try:
            keys = list(map(self._key.key, value))
        except Misfit as e:
            raise e.within("a key of the map") from None
        items = list(value.values())
        if not self._nullable and None in items:
            raise Misfit(None, f"{self._value.name}, not null,", "a value of the map")
        try:
            return dict(zip(keys, self._value.all_as_read(items)))
        except Misfit as e:
            raise e.within("a value of the map") from None

    def decode(self, array: pa.Array) -> list[Any]:
        at = offsets(array)
        first, size = at[0], at[-1] - at[0]
        keys = self._key.decode(array.keys.slice(first, size))
        if self._key.as_key is not None:
            keys = list(map(self._key.as_key, keys))
        values = self._value.decode(array.items.slice(first, size))
        maps = [
            dict(zip(keys[a - first : b - first], values[a - first : b - first]))
            for a, b in pairwise(at)
        ]
        return _with_nulls(maps, array)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if value is not None and not isinstance(value, dict):
                raise Misfit(value, self.name)
        present = [v for v in values if v is not None]
        keys = list(chain.from_iterable(present))
        if None in keys:
            raise Misfit(None, self._key.name, "a key of the map")
        try:
            encoded_keys = self._key.encode(keys)
        except Misfit as e:
            raise e.within("a key of the map") from None
        items = list(chain.from_iterable(v.values() for v in present))
        if not self._nullable and None in items:
            raise Misfit(None, f"{self._value.name}, not null,", "a value of the map")
        try:
            encoded_values = self._value.encode(items)
        except Misfit as e:
            raise e.within("a value of the map") from None
        return pa.MapArray.from_arrays(
            _offsets_of(values), encoded_keys, encoded_values, type=self.arrow, mask=_mask(values)
        )


class StructCodec(Codec):
    """Structs: tuples with named fields."""

    def __init__(self, data_type: T.StructType, shape: Shape | None = None) -> None:
        super().__init__(data_type, (tuple,))
        shape = shape or _PLAIN
        types = [field.dataType for field in data_type.fields]
        self.fields = [codec(kind, shape.part(i)) for i, kind in enumerate(types)]
        self.names = tuple(data_type.fieldNames())
        self._required = [i for i, field in enumerate(data_type.fields) if not field.nullable]
        self._class: type = row_class(self.names)
        self._make: Form = row_maker(self.names)
        if shape.cls is not None:
            cls = self._class = shape.cls
            self._make = lambda values: cls(*values)
        self.plain = None
        self.as_key = self._as_key
        self.key_class = None

    def as_read(self, value: Any) -> Any:
        if value is None:
            return None
        return self.tuple_as_read(value if type(value) is tuple else self._tuple(value))

    @cached_property
    def tuple_as_read(self) -> Form:
        """``as_read`` of a tuple, compiled for these fields as ``namedtuple`` compiles its own.

        A state of a struct is mostly given a tuple, and mostly of values of just the right class.
        """
        names = [f"v{i}" for i in range(len(self.fields))]
        scope: dict[str, Any] = {"make": self._make, "width": len(names)}
        scope["misfit"] = self._wrong_length
        lines = ["def as_read(row):", "if len(row) != width: misfit(row)"]
        if names:
            lines.append(f"{', '.join(names)}, = row")
        for i, field in enumerate(self.fields):
            scope[f"form{i}"] = self._field_reader(i)
            fits = []
            if isinstance(field, _Integer):
                fits.append(f"type(v{i}) is int and {field.lowest} <= v{i} <= {field.highest}")
            elif field.plain is not None:
                scope[f"class{i}"] = field.plain
                fits.append(f"type(v{i}) is class{i}")
            if i not in self._required:
                fits.append(f"v{i} is None")
            condition = f"if not ({' or '.join(fits)}): " if fits else ""
            lines.append(f"{condition}v{i} = form{i}(v{i})")
        lines.append(f"return make(({''.join(name + ', ' for name in names)}))")
        exec("\n ".join(lines), scope)
        reader: Form = scope["as_read"]
        return reader

    def _field_reader(self, i: int) -> Form:
        field, name, required = self.fields[i], self.names[i], i in self._required

        def as_read(value: Any) -> Any:
            if required and value is None:
                raise Misfit(None, f"{field.name}, not null,", f"field '{name}'")
            try:
                return field.as_read(value)
            except Misfit as e:
                raise e.within(f"field '{name}'") from None

        return as_read

    def _wrong_length(self, row: Any) -> None:
        raise Misfit(row, f"{self.name} ({len(self.fields)} fields)")

    def _as_key(self, value: Any) -> Any:
        if value is None:
            return None
        forms = [field.as_key for field in self.fields]
        row = self._tuple(value)
        return self._make(tuple(v if form is None else form(v) for form, v in zip(forms, row)))

    def key(self, value: Any) -> Any:
        if value is None:
            return None
        (row,) = self._tuples([value])
        parts = []
        for name, field, part in zip(self.names, self.fields, row):
            try:
                parts.append(field.key(part))
            except Misfit as e:
                raise e.within(f"field '{name}'") from None
        return self._make(tuple(parts))

    def decode(self, array: pa.Array) -> list[Any]:
        if array.null_count == len(array):
            return [None] * len(array)
        if not self.fields:
            return [self._make(())] * len(array)
        columns = [f.decode(array.field(i)) for i, f in enumerate(self.fields)]
        if array.null_count:
            # A class of the user's may refuse the nulls that are in place of nothing.
            make, rows = self._make, zip(_validity(array), zip(*columns))
            return [make(row) if there else None for there, row in rows]
        return list(map(self._make, zip(*columns)))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        rows: Sequence[Any] = values
        mask = None
        if None in values:
            present = iter(self._tuples([v for v in values if v is not None]))
            absent = (None,) * len(self.fields)
            mask = pa.array([v is None for v in values], pa.bool_())
            rows = [absent if v is None else next(present) for v in values]
        else:
            rows = self._tuples(values)
        columns = self._encode_fields(rows)
        if not columns:
            return pa.array([{}] * len(values), self.arrow)
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow), mask=mask)

    def encode_columns(self, rows: Sequence[Any]) -> list[pa.Array]:
        """One array a field of rows, none of which is ``None``."""
        return self._encode_fields(self._tuples(rows))

    def _tuples(self, rows: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        """These rows as tuples of the fields' values in their order."""
        width = len(self.fields)
        if not set(map(type, rows)) <= {self._class, tuple} or not issubclass(self._class, tuple):
            rows = [self._tuple(row) for row in rows]
        if set(map(len, rows)) - {width}:
            self._wrong_length(next(row for row in rows if len(row) != width))
        for i in self._required:
            if any(row[i] is None for row in rows):
                raise Misfit(None, f"{self.fields[i].name}, not null,", f"field '{self.names[i]}'")
        return rows

    def _encode_fields(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        columns = zip(*rows) if rows else [()] * len(self.fields)
        encoded = []
        for name, field, column in zip(self.names, self.fields, columns):
            try:
                encoded.append(field.encode(column))
            except Misfit as e:
                raise e.within(f"field '{name}'") from None
        return encoded

    def _tuple(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            # A Row or namedtuple of the same names in another order is meant by name.
            names: Any = getattr(value, "__fields__", None)
            names = names or getattr(value, "_fields", self.names)
            if tuple(names) != self.names and sorted(names) == sorted(self.names):
                by_name = dict(zip(names, value))
                return tuple(by_name[name] for name in self.names)
            return value
        if isinstance(value, list):
            return tuple(value)
        if isinstance(value, dict):
            unknown = [name for name in value if name not in self.names]
            if unknown:
                raise Misfit(value, f"{self.name}, which has no field {unknown[0]!r}")
            return tuple(value.get(name) for name in self.names)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            try:
                return tuple(getattr(value, name) for name in self.names)
            except AttributeError:
                raise Misfit(value, self.name) from None
        raise Misfit(value, self.name)


def _validity(array: pa.Array) -> list[bool]:
    valid: list[bool] = array.is_valid().to_pylist()
    return valid


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        return [v if ok else None for v, ok in zip(values, _validity(array))]
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


def _offsets_of(values: Sequence[Any]) -> pa.Array:
    lengths = (0 if v is None else len(v) for v in values)
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def _mask(values: Sequence[Any]) -> pa.Array | None:
    return pa.array([v is None for v in values], pa.bool_()) if None in values else None


_LONG = _Fixed(T.LongType(), (int,), "q", 8)

_SIMPLE: dict[type[T.DataType], Callable[[T.DataType], Codec]] = {
    T.BooleanType: lambda t: Codec(t, (bool,)),
    T.ByteType: lambda t: _Integer(t, (int,), "b", 1),
    T.ShortType: lambda t: _Integer(t, (int,), "h", 2),
    T.IntegerType: lambda t: _Integer(t, (int,), "i", 4),
    T.LongType: lambda t: _Integer(t, (int,), "q", 8),
    T.FloatType: lambda t: _Float(t, (float,), "f", 4),
    T.DoubleType: lambda t: _Float(t, (float,), "d", 8),
    T.DecimalType: lambda t: _Decimal(t, (Decimal,)),
    T.StringType: lambda t: _String(t, (str,)),
    T.BinaryType: lambda t: _Binary(t, (bytes,)),
    T.DateType: lambda t: _Date(t, (datetime.date,)),
    T.TimestampType: lambda t: _Timestamp(t, (datetime.datetime,)),
    T.TimestampNTZType: lambda t: _Naive(t, (datetime.datetime,)),
    T.DayTimeIntervalType: lambda t: Codec(t, (datetime.timedelta,)),
    T.TimeType: lambda t: _Naive(t, (datetime.time,)),
    T.NullType: lambda t: Codec(t, ()),
}


def codec(data_type: T.DataType, shape: Shape | None = None) -> Codec:
    """The codec of a Spark type.

    Args:
        data_type: any type that has a Python value; not variant, calendar and year-month intervals,
            geometry and geography.
        shape: where values are objects of the user's classes.

    Raises:
        TypeError: the type is not supported.
    """
    if isinstance(data_type, T.StructType):
        return StructCodec(data_type, shape)
    if isinstance(data_type, T.ArrayType):
        return _Array(data_type, shape or _PLAIN)
    if isinstance(data_type, T.MapType):
        return _Map(data_type, shape or _PLAIN)
    for kind, make in _SIMPLE.items():
        if type(data_type) is kind:
            return make(data_type)
    raise TypeError(f"type {data_type.simpleString()} is not supported")
