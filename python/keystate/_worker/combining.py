"""Rows of a key become one before the shuffle: what ``mapInArrow`` calls for ``combine=True``.

Nothing is kept from one batch to the next, so a task that is tried again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec import Misfit, Shape, StructCodec, shorten, struct_codec
from keystate._worker.aggregates.computing import Aggregation
from keystate._worker.aggregates.declared import ColumnAggregate, accumulator_type
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.aggregates.key_groups import groups_of, key_numbers
from keystate._worker.calls.function_errors import function_error
from keystate._worker.calls.sent import SentFunction
from keystate._worker.reduction import reduction
from keystate.errors import KeystateError, OutputTypeError

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class CombineRows:
    """Reduces the rows of each key in a batch to one, by the function of two rows.

    Args:
        function_spec: how the function is called, pickled.
        row_type: of the rows.
        shape: how they become objects of a dataclass; ``None`` if they are Rows.
        keys: the indexes of the key columns. They stay what they are, whatever the function makes
            of them: the row must come to its key.
    """

    _function_spec: SentFunction
    _row_type: T.StructType
    _shape: Shape | None
    _keys: Sequence[int]

    def __call__(self, batches: Batches) -> Batches:
        reduce = reduction(self._function_spec.load(), self._row_type)
        codec = struct_codec(self._row_type, self._shape or Shape())
        for batch in batches:
            numbers = key_numbers([batch.column(key) for key in self._keys])
            again = np.bincount(numbers)[numbers] > 1
            if not again.all():
                yield batch.filter(pa.array(~again))
            if again.any():
                rows = batch.filter(pa.array(again))
                yield self._combined(rows, numbers[again], codec, reduce)

    def _combined(
        self, batch: pa.RecordBatch, numbers: Numbers, codec: StructCodec, reduce: Any
    ) -> pa.RecordBatch:
        keys = [batch.column(key) for key in self._keys]
        _, heads, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        made: list[Any] = [None] * len(heads)
        number, row = 0, None
        try:
            for number, row in zip(numbers.tolist(), codec.decode(batch.to_struct_array())):
                before = made[number]
                made[number] = row if before is None else codec.as_read(reduce(before, row))
        except Exception as e:
            key = tuple(column[int(heads[number])].as_py() for column in keys)
            raise _failure(e, f"before the shuffle, key {shorten(key)}, row {shorten(row)}") from e
        columns = codec.encode_columns(made)
        for index, key in zip(self._keys, keys):
            columns[index] = key.take(pa.array(heads))
        return _batch(columns, batch.schema)


@dataclass(frozen=True)
class CombineColumns:
    """Aggregates columns of the rows of each key in a batch.

    It gives the key's columns, and a column for each accumulator as it is in the state.

    Args:
        aggregates: what they are, of these rows.
        keys: how many of the first columns are the key's.
    """

    _aggregates: tuple[ColumnAggregate, ...]
    _keys: int

    def __call__(self, batches: Batches) -> Batches:
        aggregation = Aggregation(self._aggregates)
        kind = struct_codec(accumulator_type(self._aggregates)).arrow
        for batch in batches:
            keys = batch.columns[: self._keys]
            groups = groups_of(key_numbers(keys))
            heads = pa.array(groups.heads(np.arange(batch.num_rows)))
            packed = aggregation.pack(aggregation.merge(groups, aggregation.lift(batch)), kind)
            columns = [*(key.take(heads) for key in keys), *packed.flatten()]
            yield pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def _batch(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    cast = [column.cast(field.type) for column, field in zip(columns, schema)]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def _failure(error: Exception, where: str) -> KeystateError:
    if isinstance(error, Misfit):
        return OutputTypeError(f"the result of reduce(): {error}, {where}")
    return error if isinstance(error, KeystateError) else function_error(error, where)
