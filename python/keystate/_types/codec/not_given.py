"""Placeholders for columns whose type has no Python value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec.base import Codec
from keystate._types.codec.misfits import Misfit

#: In the metadata of an input's column: its type, which has no Python value. The column is null.
TYPE = "keystate.notGiven"


class NotGiven:
    """Stands for the value of a column whose type has no Python value.

    A function that does not look at the column goes on; all that is done with the value is an
    error.
    """

    __slots__ = ("column", "kind")

    def __init__(self, column: str, kind: str) -> None:
        self.column = column
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    def __reduce__(self) -> Any:
        return NotGiven, (self.column, self.kind)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            f"column '{self.column}' is of type {self.kind}, which has no Python value: turn it "
            "into another type before keyed(), for instance into a string"
        )

    __str__ = __format__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __hash__ = _refuse


class NotGivenCodec(Codec):
    """The codec of such a column. What stands for its values is kept as null.

    Args:
        column: its name.
        kind: the type that has no Python value.
    """

    def __init__(self, column: str, kind: str) -> None:
        super().__init__(T.BooleanType(), ())
        self.key_class = self.frozen = None
        self.value = NotGiven(column, kind)

    def decode(self, array: pa.Array) -> list[Any]:
        return [self.value] * len(array)

    def as_read(self, value: Any) -> Any:
        if type(value) is not NotGiven and value is not None:
            raise Misfit(value, self.value.kind)
        return self.value

    def encode(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            self.as_read(value)
        return pa.nulls(len(values), self.arrow)
