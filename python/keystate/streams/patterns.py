"""A pattern that is applied to a keyed stream."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame

from keystate._jvm import bridge
from keystate._operators.patterns import PatternOperator
from keystate._operators.side_outputs import ResultDataFrame
from keystate.errors import DeclarationError


class PatternStream:
    """A keyed stream with a pattern; made by :meth:`keystate.KeyedStream.pattern`."""

    def __init__(self, operator: PatternOperator) -> None:
        self._operator = operator

    def select(self, *results: Column) -> ResultDataFrame:
        """One row for each match: the key, ``match_time``, and these columns.

        Args:
            results: expressions over the key columns and over aggregate functions of parts:
                ``F.first("login.ts")``, ``F.count("failures.*")``. A function of plain columns is
                over all rows of the match.

        Raises:
            DeclarationError: the pattern, or a column, makes no sense.
        """
        if not results or not all(isinstance(one, Column) for one in results):
            raise DeclarationError(
                'select() needs columns, such as F.first("login.ts"); for the rows of matches call '
                "all_rows()"
            )
        return ResultDataFrame(replace(self._operator, results=results), bridge.pattern)

    def all_rows(self) -> ResultDataFrame:
        """The rows of each match.

        They have the input's columns and ``match_time``, ``match_number`` in the order of a key's
        matches, and ``match_part``, the name of the part.

        Raises:
            DeclarationError: the pattern makes no sense.
        """
        return ResultDataFrame(self._operator, bridge.pattern)


def match_recognize(df: DataFrame, text: str, *, name: str | None = None) -> DataFrame:
    """Finds the matches of a pattern that is written as in SQL's ``MATCH_RECOGNIZE``.

    On a stream the first column of ORDER BY is that of the watermark, and a match goes out once no
    preferred one can come: a last ``B+`` waits for the row that ends it, or for WITHIN.

    Args:
        df: a DataFrame; PARTITION BY gives the key.
        text: what stands in the brackets of ``MATCH_RECOGNIZE (...)``, with Trino's grammar and
            meaning, and Flink's ``WITHIN INTERVAL '5' MINUTE`` after PATTERN.
        name: the operator's name, in messages and in savepoints.

    Raises:
        DeclarationError: the text makes no sense, or has what a stream can't know.
    """
    return bridge.match_recognize(df, text, name)
