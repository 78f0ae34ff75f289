"""The result of an operator, with side outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from keystate._operators.aggregates import AggregateOperator
from keystate._operators.definition import Operator
from keystate._operators.joins import AsOfOperator, JoinAllOperator
from keystate._operators.patterns import PatternOperator
from keystate._spec.specs import MAIN_OUTPUT
from keystate._types.ddl import quoted
from keystate.errors import DeclarationError
from keystate.functions import OutputTag

Write = Callable[[DataFrame, int], Any]
AnyOperator = Operator | AggregateOperator | AsOfOperator | JoinAllOperator | PatternOperator


class ResultDataFrame(DataFrame):
    """An operator's output: a DataFrame of its main output, with methods for its side outputs.

    Each side output is a DataFrame of its own, and a query that reads one runs the function for it.
    To get several outputs from one run, use :meth:`write_outputs` or :meth:`with_side_outputs`.
    """

    #: The operator as it was declared.
    _operator: AnyOperator

    def __new__(cls, operator: AnyOperator, run: Callable[[Any], DataFrame]) -> ResultDataFrame:
        main = run(operator)
        made: ResultDataFrame = object.__new__(_of_kind(type(main)))  # type: ignore[arg-type]
        vars(made).update(vars(main))
        return made

    def __init__(self, operator: AnyOperator, run: Callable[[Any], DataFrame]) -> None:
        self._operator = operator
        self._run = run

    def side_output(self, tag: OutputTag) -> DataFrame:
        """The rows that the function emitted with ``yield tag, row``.

        Raises:
            DeclarationError: the tag's type is no schema.
        """
        return _only(self.with_side_outputs(tag), tag.tag_id)

    get_side_output = side_output

    def with_side_outputs(self, *tags: OutputTag) -> DataFrame:
        """Main output and side outputs in one DataFrame, from one run of the function.

        It has a struct column ``main`` and one for each tag, by its name; in a row just one of them
        is not null. Results for other tags are dropped.

        Raises:
            DeclarationError: a tag's type is no schema, or its name is there twice.
        """
        for tag in tags:
            if not isinstance(tag, OutputTag):
                raise DeclarationError(f"expected an OutputTag, got {tag!r}")
        return self._run(dataclasses.replace(self._operator, side_outputs=tags))

    def write_outputs(
        self, main: Write | None, side_outputs: Mapping[OutputTag, Write] | None = None
    ) -> DataStreamWriter:
        """Writes main output and side outputs in one query, from one run of the function.

        All results are computed before the first write is called, which need not read them.

        Args:
            main: is called for each micro-batch with the DataFrame of the main output and the batch
                id, as by ``foreachBatch``: again, with the same id, for one that is run again. A
                :class:`~keystate.FileSink` or :class:`~keystate.TableSink` writes each
                once. ``None`` if nobody wants this output.
            side_outputs: the same for each side output.

        Returns:
            The query to be started: it needs a checkpoint location and, if wanted, a trigger.
        """
        if not self.isStreaming:
            raise DeclarationError("write_outputs() needs a stream; see with_side_outputs()")
        side_outputs = side_outputs or {}
        writes = {tag.tag_id: write for tag, write in side_outputs.items()}
        if main is not None:
            writes = {MAIN_OUTPUT: main, **writes}

        def write_all(df: DataFrame, batch_id: int) -> None:
            df.persist()
            try:
                # All of it, whatever the functions read: a partition that is left out would be
                # state that is not committed.
                df.count()
                for output, write in writes.items():
                    write(_only(df, output) if side_outputs else df, batch_id)
            finally:
                df.unpersist()

        return self.with_side_outputs(*side_outputs).writeStream.foreachBatch(write_all)


@cache
def _of_kind(kind: type[DataFrame]) -> type[ResultDataFrame]:
    """The class of results that are DataFrames of a classic session, or of Spark Connect."""
    return type(ResultDataFrame.__name__, (ResultDataFrame, kind), {})


def _only(df: DataFrame, output: str) -> DataFrame:
    name = quoted(output)
    return df.where(df[name].isNotNull()).select(f"{name}.*")
