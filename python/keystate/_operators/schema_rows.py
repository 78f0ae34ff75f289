"""Rows that are yet to come: a DataFrame without Spark, for the test harness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from keystate._operators.definition import Operator
from keystate._spec.specs import DELAY_KEY
from keystate._types.ddl import quoted
from keystate.errors import DeclarationError


class SchemaRows(DataFrame):
    """A DataFrame that has a schema and no session, so that streams can be made of it.

    Its columns are their names.

    Args:
        schema: its columns.
        batch: the rows of a batch DataFrame; ``None`` if it is a stream.
        operator: what makes the rows; ``None`` if they are an input.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> SchemaRows:
        return object.__new__(cls)  # that of DataFrame would make one of a classic session

    def __init__(
        self,
        schema: T.StructType,
        batch: Iterable[Any] | None = None,
        operator: Operator | None = None,
    ) -> None:
        self._columns = schema
        self.batch = batch
        self.operator = operator

    @property
    def schema(self) -> T.StructType:
        """The columns."""
        return self._columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._columns.fieldNames()

    @property
    def isStreaming(self) -> bool:
        """Whether it is a stream."""
        return self.batch is None

    def __getitem__(self, item: Any) -> Any:
        """A column: its name."""
        return self._field(item).name

    def __getattr__(self, name: str) -> Any:
        """A column: its name."""
        if name.startswith("_") or name not in self.columns:
            raise AttributeError(name)
        return name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns.simpleString()})"

    def select(self, *cols: Any) -> DataFrame:
        """Some of the columns."""
        return SchemaRows(T.StructType([self._field(col) for col in cols]), self.batch)

    def withWatermark(self, eventTime: str, delayThreshold: str) -> DataFrame:
        """The rows with a watermark, which the test moves, whatever the delay."""
        field = self._field(eventTime)
        if self.isStreaming:  # of a batch the watermark is ignored
            _check_event_time(field)
        marked = {**field.metadata, DELAY_KEY: 0}
        fields = [
            T.StructField(f.name, f.dataType, f.nullable, marked) if f.name == eventTime else f
            for f in self._columns.fields
        ]
        return SchemaRows(T.StructType(fields), self.batch)

    @property
    def writeStream(self) -> Any:
        """The rows themselves, for a sink, which has taken what there is to write."""
        return self

    def format(self, source: str) -> SchemaRows:
        """Ignores the option, as a writer's method: nothing is written."""
        return self

    def outputMode(self, outputMode: str) -> SchemaRows:
        """Ignores the option, as a writer's method: nothing is written."""
        return self

    def position(self, column: Any) -> int:
        """The index of a column."""
        return self.columns.index(self._field(column).name)

    def _field(self, column: Any) -> T.StructField:
        if isinstance(column, Column):
            raise DeclarationError(
                f"the test harness takes a column by its name, not as the expression {column!r}"
            )
        name = column[1:-1].replace("``", "`") if column.startswith("`") else column
        if name not in self.columns:
            raise DeclarationError(f"there is no column '{name}' in the input: {self.columns}")
        return self._columns[name]


def _sql(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(f'{each.name}: {_sql(each.dataType)}' for each in kind)}>"
    return kind.simpleString().upper()


def _check_event_time(field: T.StructField) -> None:
    """Raises Spark's error for what its ``withWatermark`` refuses."""
    kind = field.dataType
    if isinstance(kind, T.StructType):  # a window
        kind = next((each.dataType for each in kind.fields if each.name == "end"), kind)
    if not isinstance(kind, T.TimestampType):
        name = quoted(field.name)
        told = f'"{_sql(field.dataType)}"'
        raise AnalysisException(
            f'The event time {name} has the invalid type {told}, but expected "TIMESTAMP".',
            errorClass="EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
            messageParameters={"eventName": name, "eventType": told},
        )


def positions(df: DataFrame, columns: Sequence[Column]) -> list[int]:
    """The indexes of columns of such a DataFrame."""
    assert isinstance(df, SchemaRows)
    return [df.position(column) for column in columns]
