"""Encodes a function's results for the JVM: rows of its output schema, and of side outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._spec.specs import MAIN_OUTPUT
from keystate._types.codec import NOT_PACKED, Misfit, PackedRows, struct_codec
from keystate.errors import OutputTypeError
from keystate.functions import OutputTag

#: Says what is being processed; empty between rows.
Where = Callable[[], str]


class Results:
    """Results of one schema. Those for side outputs are dropped: nobody reads them.

    A result is taken when it comes, as it is then, and encoded with the others of its message.

    Args:
        output_type: the schema.
        where: says in messages what is being processed.
        place: what the schema is of, for messages.
    """

    def __init__(
        self, output_type: T.StructType, where: Where, place: str = "the output schema"
    ) -> None:
        self._codec = struct_codec(output_type)
        self._bare = len(output_type.fields) == 1
        self._is_row = row_test(output_type)
        self._where = where
        #: What a result is now: it does not change with it.
        self.take = self._codec.taker(self._take)
        self.place = f"{place} {self._codec.name}"
        self.arrow = self._codec.arrow
        self.columns = self._codec.fields
        self._fields = list(self.arrow)
        self._none = pa.array([], self.arrow)

    @property
    def main(self) -> Results:
        """The encoder of the main output's results."""
        return self

    def encode(self, results: list[Any]) -> pa.Array:
        """The results as a struct each."""
        if not results:
            return self._none
        try:
            columns = self._codec.encode_columns(self._as_rows(results))
        except Misfit as e:
            # A tag fits no type, so only here can there be any.
            main = [result for result in results if not _is_tagged(result)]
            if len(main) < len(results):
                return self.encode(main)
            raise self._misfit(e) from None
        return pa.StructArray.from_arrays(columns, fields=self._fields)

    def _take(self, result: Any) -> Any:
        if _is_tagged(result):
            return result
        try:
            if self._bare and not self._is_row(result):
                result = (result,)
            elif result is None:
                raise Misfit(None, self._codec.name)
            return self._codec.as_read(result)
        except Misfit as e:
            raise self._misfit(e) from None

    def _misfit(self, error: Misfit) -> OutputTypeError:
        where = self._where()
        return OutputTypeError(
            f"a result{where and ', ' + where + ','} does not fit {self.place}: "
            f"{error}{self._hint(error)}"
        )

    def _as_rows(self, results: list[Any]) -> list[Any]:
        return [r if self._is_row(r) else (r,) for r in results] if self._bare else results

    @cached_property
    def _packed(self) -> PackedRows:
        return PackedRows(self._codec)

    def pack(self, results: list[Any]) -> list[bytes] | None:
        """The results as packed rows; None if one does not fit, or has a tag."""
        try:
            return list(map(self._packed.write, self._as_rows(results)))
        except NOT_PACKED:
            return None

    def _hint(self, error: Misfit) -> str:
        """For a row that was returned as a list, whose values came as results of their own."""
        value = error.value
        is_row = isinstance(value, (tuple, list, dict)) or dataclasses.is_dataclass(value)
        if self._bare or error.where or is_row:
            return ""
        return ". A list is many results: return a row as a tuple"


class TaggedResults:
    """Results of the main output and of side outputs: a column for each, one of them not null."""

    def __init__(self, output_type: T.StructType, where: Where) -> None:
        self._outputs = [_output(field, where) for field in output_type.fields]
        main = output_type.fields[0].dataType
        assert isinstance(main, T.StructType)
        #: What a result is now: it does not change with it.
        self.take = struct_codec(main).taker(self._take)
        self._of_tag = {name: i for i, name in enumerate(output_type.names) if i > 0}
        self._fields = list(struct_codec(output_type).arrow)

    @property
    def main(self) -> Results:
        """The encoder of the main output's results."""
        return self._outputs[0]

    def of_main(self, rows: pa.Array) -> pa.Array:
        """Encoded rows of the main output, as results."""
        columns = [rows, *(pa.nulls(len(rows), field.type) for field in self._fields[1:])]
        return pa.StructArray.from_arrays(columns, fields=self._fields)

    def _take(self, result: Any) -> Any:
        if not _is_tagged(result):
            return self._outputs[0].take(result)
        tag, value = result
        output = self._of_tag.get(tag.tag_id)
        return result if output is None else (tag, self._outputs[output].take(value))

    def encode(self, results: list[Any]) -> pa.Array:
        """The results in their order; those with other tags are dropped."""
        values: list[list[Any]] = [[] for _ in self._outputs]
        outputs: list[int] = []
        for result in results:
            output: int | None = 0
            if _is_tagged(result):
                output = self._of_tag.get(result[0].tag_id)
                result = result[1]
            if output is not None:
                outputs.append(output)
                values[output].append(result)
        columns = [
            _spread(self._outputs[i].encode(values[i]), [output == i for output in outputs])
            for i in range(len(self._outputs))
        ]
        return pa.StructArray.from_arrays(columns, fields=self._fields)


def make_results(output_type: T.StructType, tagged: bool, where: Where) -> Results | TaggedResults:
    """The encoder of an operator's results, with or without side outputs."""
    return TaggedResults(output_type, where) if tagged else Results(output_type, where)


def _output(field: T.StructField, where: Where) -> Results:
    place = "the output schema" if field.name == MAIN_OUTPUT else f"side output '{field.name}'"
    assert isinstance(field.dataType, T.StructType)
    return Results(field.dataType, where, place)


def _spread(values: pa.Array, here: Iterable[bool]) -> pa.Array:
    """The values in their order where it is said, nulls elsewhere."""
    places = iter(range(len(values)))
    return values.take(pa.array([next(places) if each else None for each in here], pa.int64()))


def _is_tagged(result: Any) -> bool:
    return type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag)


def row_test(schema: T.StructType) -> Callable[[Any], bool]:
    """Tells a row of one column from that column's bare value, which may be a tuple or dict too."""
    if len(schema.fields) != 1:
        return lambda r: True
    kind, name = schema.fields[0].dataType, schema.fields[0].name
    if isinstance(kind, T.MapType):
        return lambda r: (
            _names(r) == [name] and isinstance(r[name], (dict, type(None)))
            if isinstance(r, dict)
            else isinstance(r, tuple) or _names(r) is not None
        )
    if isinstance(kind, T.StructType) and kind.fieldNames() != [name]:
        return lambda r: (isinstance(r, tuple) and len(r) == 1) or _names(r) == [name]
    return lambda r: isinstance(r, tuple) or _names(r) is not None


def _names(result: Any) -> list[str] | None:
    if isinstance(result, dict):
        return list(result)
    if dataclasses.is_dataclass(result):
        return [field.name for field in dataclasses.fields(result)]
    return None
