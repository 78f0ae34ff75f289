"""Plans around an operator, in which Spark's tasks have other numbers than its subtasks."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: Puts an operator's result, which it makes of a source's rows, into a plan.
Shape = Callable[[DataFrame, DataFrame], DataFrame]


def alone(source: DataFrame, result: DataFrame) -> DataFrame:
    return result


def second_of_a_union(source: DataFrame, result: DataFrame) -> DataFrame:
    """The tasks of the first branch, which has no rows, are counted first."""
    nulls = (F.lit(None).cast(f.dataType).alias(f.name) for f in result.schema)
    # Nothing that the optimizer could know.
    return source.where(F.spark_partition_id() < 0).select(*nulls).union(result)


def before_a_coalesce(source: DataFrame, result: DataFrame) -> DataFrame:
    """One task is all subtasks, as of who wants one file for each micro-batch."""
    return result.coalesce(1)


SHAPES: list[Shape] = [alone, second_of_a_union, before_a_coalesce]


def shape_name(shape: Shape) -> str:
    return shape.__name__
