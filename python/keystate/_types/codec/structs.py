"""The codec of structs, and of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._compiled import make_rows, row_reader, row_taker
from keystate._compiled.plain import Field
from keystate._types.codec.base import NONE, Codec, Form, Shape, validity
from keystate._types.codec.foreign import of_python
from keystate._types.codec.misfits import Misfit
from keystate._types.codec.numeric import IntegerCodec
from keystate._types.codec.objects import constructor, restorer, runs_code, values_of
from keystate._types.codec.rows import row_class, row_maker
from keystate._types.codec.text import StringCodec


class StructCodec(Codec):
    """Structs: tuples with named fields.

    Args:
        data_type: the struct's.
        shape: which class the values are of.
        fields: the codecs of the fields.
    """

    def __init__(self, data_type: T.StructType, shape: Shape, fields: list[Codec]) -> None:
        super().__init__(data_type, (tuple,))
        self.fields = fields
        self.names = tuple(data_type.fieldNames())
        self._arrow_fields = list(self.arrow)
        self._required = [i for i, field in enumerate(data_type.fields) if not field.nullable]
        for name, field in zip(self.names, fields):
            field.name_column(name)
        self._class: type = row_class(self.names)
        #: Makes a value of its fields' values; objects without their class's ``__init__``.
        self.make: Form = row_maker(self.names)
        #: Makes what an input row has; objects by their class.
        self._construct = self.make
        self.runs_code = any(field.runs_code for field in fields)
        self._are_rows = shape.cls is None
        if shape.cls is not None:
            self._class = shape.cls
            self.make, self._construct = restorer(shape.cls), constructor(shape.cls)
            self.runs_code = self.runs_code or runs_code(shape.cls)
        # Values of these classes have the fields in their order.
        self._ordered = {tuple, self._class} if issubclass(self._class, tuple) else {tuple}
        self._ordered_or_none = {*self._ordered, NONE}
        self.plain = self.frozen = None
        self.mutable = any(field.mutable for field in fields) or not _is_frozen(self._class)
        self.as_key = self._as_key
        self.key_class = None
        self._key_forms = [field.as_key for field in fields]
        self._decoded_is_key = not any(self._key_forms)

    def made(self, value: Any) -> Any:
        if value is None:
            return None
        parts = tuple([field.made(part) for field, part in zip(self.fields, value)])
        return self._construct(parts)

    def as_read(self, value: Any) -> Any:
        if type(value) not in self._ordered:
            value = self._tuple(value)
        return None if value is None else self.tuple_as_read(value)

    def all_as_read(self, values: Sequence[Any]) -> list[Any]:
        if set(map(type, values)) <= self._ordered:
            return list(map(self.tuple_as_read, values))
        return super().all_as_read(values)

    @cached_property
    def tuple_as_read(self) -> Form:
        """``as_read`` of a tuple, compiled for these fields as ``namedtuple`` compiles its own.

        A state of a struct is mostly given a tuple, and mostly of values of just the right class.
        """
        names = [f"v{i}" for i in range(len(self.fields))]
        scope: dict[str, Any] = {"make": self.make, "width": len(names)}
        scope["misfit"] = self._wrong_length
        lines = ["def as_read(row):", "if len(row) != width: misfit(row)"]
        if names:
            lines.append(f"{', '.join(names)}, = row")
        for i, field in enumerate(self.fields):
            scope[f"form{i}"] = self._field_reader(i)
            fits = []
            if isinstance(field, IntegerCodec):
                fits.append(f"type(v{i}) is int and {field.lowest} <= v{i} <= {field.highest}")
            elif isinstance(field, StringCodec):
                fits.append(f"type(v{i}) is str and v{i}.isascii()")
            elif field.naive is not None:
                scope[f"class{i}"] = field.naive
                fits.append(f"type(v{i}) is class{i} and v{i}.tzinfo is None and not v{i}.fold")
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
        if not self._are_rows:
            return reader
        return row_reader(self._class, reader, self._usual_fields)

    def taker(self, slow: Form) -> Form:
        """A function that takes a row from the user as it is at that moment.

        It takes a tuple of values that never change without a copy, and so the bare value of a
        single column. It passes all other rows to `slow`.
        """
        return row_taker(self._class, slow, self._usual_fields)

    @cached_property
    def _usual_fields(self) -> tuple[Field, ...]:
        return tuple(map(self._usual, range(len(self.fields))))

    def _usual(self, i: int) -> Field:
        field, nullable = self.fields[i], i not in self._required
        if isinstance(field, IntegerCodec):
            return Field(int, int, nullable, field.lowest, field.highest)
        single = isinstance(field.data_type, T.FloatType)
        return Field(field.plain or field.naive, field.frozen, nullable, single=single)

    def copy(self, value: Any) -> Any:
        if value is None or not self.mutable:
            return value
        values = value if self._are_rows else self._row(value)
        return self.make(
            tuple([f.copy(v) if f.mutable else v for f, v in zip(self.fields, values)])
        )

    def _field_reader(self, i: int) -> Form:
        field, name, required = self.fields[i], self.names[i], i in self._required

        def as_read(value: Any) -> Any:
            try:
                value = field.as_read(value)
            except Misfit as e:
                raise e.within(f"field '{name}'") from None
            if required and value is None:
                raise Misfit(None, f"{field.name}, not null,", f"field '{name}'")
            return value

        return as_read

    def _wrong_length(self, row: Any) -> None:
        raise Misfit(row, f"{self.name} ({len(self.fields)} fields)")

    def _as_key(self, value: Any) -> Any:
        if value is None or (self._decoded_is_key and type(value) is self._class):
            return value
        row = zip(self._key_forms, self._row(value))
        return self.make(tuple(v if form is None else form(v) for form, v in row))

    def key(self, value: Any) -> Any:
        if value is None:
            return None
        row = value
        if type(row) not in self._ordered or len(row) != len(self.fields):
            (row,) = self._tuples([value])
        parts = []
        for name, field, part in zip(self.names, self.fields, row):
            try:
                parts.append(part if type(part) is field.key_class else field.key(part))
            except Misfit as e:
                raise e.within(f"field '{name}'") from None
        for i in self._required:
            if parts[i] is None:
                raise Misfit(None, f"{self.fields[i].name}, not null,", f"field '{self.names[i]}'")
        return self.make(tuple(parts))

    def decode(self, array: pa.Array) -> list[Any]:
        if array.null_count == len(array):
            return [None] * len(array)
        if not self.fields:
            return [self.make(())] * len(array)
        columns = [f.decode(array.field(i)) for i, f in enumerate(self.fields)]
        if array.null_count:
            make, rows = self.make, zip(validity(array), zip(*columns))
            return [make(row) if there else None for there, row in rows]
        if self._are_rows:
            return make_rows(self._class, columns)
        return list(map(self.make, zip(*columns)))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        rows: Sequence[Any] = values
        mask = None
        if not set(map(type, values)) <= self._ordered_or_none:
            values = rows = list(map(self._tuple, values))
        if None in values:
            self._check_lengths([v for v in values if v is not None])
            absent = (None,) * len(self.fields)
            mask = pa.array([v is None for v in values], pa.bool_())
            rows = [absent if v is None else v for v in values]
        else:
            self._check_lengths(rows)
        columns = self._encode_fields(rows, 0 if mask is None else mask.true_count)
        if not columns:
            return pa.array([{}] * len(values), self.arrow)
        return pa.StructArray.from_arrays(columns, fields=self._arrow_fields, mask=mask)

    def encode_columns(self, rows: Sequence[Any]) -> list[pa.Array]:
        """One array a field of rows, none of which is ``None``."""
        return self._encode_fields(self._tuples(rows))

    def _tuples(self, rows: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        """These rows as tuples of the fields' values in their order."""
        if not set(map(type, rows)) <= self._ordered:
            rows = [self._row(row) for row in rows]
        self._check_lengths(rows)
        return rows

    def _row(self, row: Any) -> tuple[Any, ...]:
        values = self._tuple(row)
        if values is None:
            raise Misfit(row, self.name)
        return values

    def _check_lengths(self, rows: Sequence[tuple[Any, ...]]) -> None:
        width = len(self.fields)
        if set(map(len, rows)) - {width}:
            self._wrong_length(next(row for row in rows if len(row) != width))

    def _encode_fields(self, rows: Sequence[tuple[Any, ...]], absent: int = 0) -> list[pa.Array]:
        """One array a field of rows.

        Args:
            rows: tuples of the fields' values.
            absent: how many of them stand for none, and have only nulls.
        """
        columns = zip(*rows) if rows else [()] * len(self.fields)
        encoded = []
        for name, field, column in zip(self.names, self.fields, columns):
            try:
                encoded.append(field.encode(column))
            except Misfit as e:
                raise e.within(f"field '{name}'") from None
        for i in self._required:
            if encoded[i].null_count > absent:
                raise Misfit(None, f"{self.fields[i].name}, not null,", f"field '{self.names[i]}'")
        return encoded

    def _tuple(self, value: Any) -> tuple[Any, ...] | None:
        """A value as a tuple of the fields' values in their order; ``None`` for none."""
        if value is None:
            return None
        if isinstance(value, tuple):
            names: Any = getattr(value, "__fields__", None)
            names = names or getattr(value, "_fields", self.names)
            return value if tuple(names) == self.names else self._by_name(value, names)
        if isinstance(value, list):
            return tuple(value)
        if isinstance(value, dict):
            unknown = [name for name in value if name not in self.names]
            if unknown:
                raise Misfit(value, f"{self.name}, which has no field {unknown[0]!r}")
            return tuple(value.get(name) for name in self.names)
        found = values_of(value, self.names)
        if found is None and of_python(value) is not None:
            raise Misfit(value, self.name)
        return found

    def _by_name(self, value: tuple[Any, ...], names: Sequence[str]) -> tuple[Any, ...]:
        """The values of a Row or namedtuple: by position only if no name in it is a field's."""
        if set(names).isdisjoint(self.names):
            return value
        for name, count in Counter(names).items():
            if name not in self.names:
                raise Misfit(value, f"{self.name}, which has no field {name!r}")
            if count > 1:
                raise Misfit(value, f"{self.name}, in which field {name!r} is once")
        missing = [name for name in self.names if name not in names]
        if missing:
            raise Misfit(value, f"{self.name}, of which field {missing[0]!r} is missing")
        by_name = dict(zip(names, value))
        return tuple(by_name[name] for name in self.names)


def _is_frozen(cls: type) -> bool:
    """Whether the fields of a struct's class can't be set."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, tuple) or (parameters is not None and parameters.frozen)
