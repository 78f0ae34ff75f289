"""Types and names of columns written as DDL, without a running Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import types as T

_TOKEN = re.compile(
    r"\s*(`(?:[^`]|``)+`"
    r"|'(?:[^'\\]|\\.)*'"
    r'|"(?:[^"\\]|\\.)*"'
    r"|\w+|[<>(),:])\s*"
)

_SIMPLE: dict[str, Callable[[], T.DataType]] = {
    "boolean": T.BooleanType,
    "tinyint": T.ByteType,
    "byte": T.ByteType,
    "smallint": T.ShortType,
    "short": T.ShortType,
    "int": T.IntegerType,
    "integer": T.IntegerType,
    "bigint": T.LongType,
    "long": T.LongType,
    "float": T.FloatType,
    "real": T.FloatType,
    "double": T.DoubleType,
    "date": T.DateType,
    "timestamp": T.TimestampType,
    "timestamp_ltz": T.TimestampType,
    "timestamp_ntz": T.TimestampNTZType,
    "string": T.StringType,
    "binary": T.BinaryType,
    "void": T.NullType,
}
_DECIMALS = ("decimal", "dec", "numeric")
_INTERVAL_UNITS = {"day": 0, "hour": 1, "minute": 2, "second": 3}


def parse_ddl(text: str) -> T.DataType:
    """The type that a DDL string names: the columns of a struct, or any one type.

    Raises:
        ValueError: it is no type, or one that Keystate has no values for.
    """
    try:
        return _Parser(text).to_end(_Parser.columns)
    except ValueError:
        return _Parser(text).to_end(_Parser.type)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"unexpected {text[at]!r}")
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def to_end(self, rule: Callable[[_Parser], T.DataType]) -> T.DataType:
        result = rule(self)
        if self._at < len(self._tokens):
            raise ValueError(f"unexpected '{self._tokens[self._at]}'")
        return result

    def columns(self) -> T.StructType:
        fields = [self._field()]
        while self._took(","):
            fields.append(self._field())
        return T.StructType(fields)

    def type(self) -> T.DataType:
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]()
        if name in _DECIMALS:
            return T.DecimalType(*self._numbers()) if self._sees("(") else T.DecimalType()
        if name == "time":
            return T.TimeType(*self._numbers()) if self._sees("(") else T.TimeType()
        if name == "interval":
            return self._interval()
        if name == "array":
            self._take("<")
            element = self.type()
            self._take(">")
            return T.ArrayType(element)
        if name == "map":
            self._take("<")
            key = self.type()
            self._take(",")
            value = self.type()
            self._take(">")
            return T.MapType(key, value)
        if name == "struct":
            self._take("<")
            struct = T.StructType([]) if self._sees(">") else self.columns()
            self._take(">")
            return struct
        raise ValueError(f"'{name}' is no type that can be read without Spark")

    def _field(self) -> T.StructField:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not re.fullmatch(r"\w+", name):
            raise ValueError(f"unexpected '{name}'")
        self._took(":")
        kind = self.type()
        nullable = True
        if self._took("not"):
            self._take("null")
            nullable = False
        metadata: dict[str, Any] = {}
        if self._took("comment"):
            metadata["comment"] = re.sub(r"\\(.)", r"\1", self._next()[1:-1])
        return T.StructField(name, kind, nullable, metadata)

    def _interval(self) -> T.DataType:
        units = [self._next().lower()]
        if self._took("to"):
            units.append(self._next().lower())
        if not set(units) <= set(_INTERVAL_UNITS):
            raise ValueError("of intervals there are only those from day to second")
        return T.DayTimeIntervalType(_INTERVAL_UNITS[units[0]], _INTERVAL_UNITS[units[-1]])

    def _numbers(self) -> list[int]:
        self._take("(")
        numbers = [int(self._next())]
        while self._took(","):
            numbers.append(int(self._next()))
        self._take(")")
        return numbers

    def _sees(self, token: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].lower() == token

    def _took(self, token: str) -> bool:
        seen = self._sees(token)
        self._at += seen
        return seen

    def _take(self, token: str) -> None:
        if not self._took(token):
            raise ValueError(f"expected '{token}' in '{self._text}'")

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise ValueError(f"'{self._text}' ends too early")
        self._at += 1
        return self._tokens[self._at - 1]


def quoted(name: str) -> str:
    """The name of a column as SQL and DataFrames take it, whatever it is."""
    return f"`{name.replace('`', '``')}`"


def unquoted(text: str) -> str:
    """A name without the backticks in which SQL takes it; any other text as it is."""
    name = text[1:-1].replace("``", "`")
    return name if quoted(name) == text else text


def meant(text: str, names: Sequence[str]) -> str | None:
    """The column of these that a user means, by its name as it is or as SQL takes it; or ``None``.

    What can be read in both ways is read as Spark reads it.
    """
    return next((name for name in (unquoted(text), text) if name in names), None)


def column_of(text: str, columns: T.StructType) -> str | None:
    """The column that `meant` finds; ``None`` if a name with a dot means a part of a column."""
    head, dot, _ = text.partition(".")
    nested = (T.StructType, T.MapType, T.ArrayType)
    parted = (f.name.lower() for f in columns.fields if isinstance(f.dataType, nested))
    return None if dot and head.lower() in parted else meant(text, columns.names)
