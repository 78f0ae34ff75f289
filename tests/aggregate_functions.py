"""Spark's aggregate functions: over which columns they go, and how alike two results must be."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyspark.sql.functions as F
from pyspark.sql import Column

from tests.alike import (
    ANY,
    BAG,
    BINS,
    CASELESS,
    CLOSE,
    COUNTS,
    EXACT,
    FIRST,
    FIRST_KNOWN,
    HISTOGRAM,
    HLL,
    KNOWN,
    LAST,
    LAST_KNOWN,
    MAX_TIE,
    MIN_TIE,
    MODE,
    MODE_LCASE,
    MOMENTS,
    RANK,
    SET,
    SIGNLESS,
    TEXT,
    TOP,
    Alike,
)

#: The columns that rows are made of. Sketches and bitmaps are made by Spark of one row each.
PLAIN = (
    "k int, batch int, id long, t timestamp, n int, m int, x double, y double, z double, s string, "
    "b boolean"
)

#: There is no function for these in Python.
SQL_ONLY = (
    "any",
    "approx_top_k",
    "approx_top_k_accumulate",
    "approx_top_k_combine",
    "expression",
    "percentile_cont",
    "percentile_disc",
)

#: Sketches of single rows, for the functions that put sketches together.
SKETCHES = {
    name: made
    for name, made in {
        "hll": "hll_sketch_agg(n % 7)",
        "bits": "bitmap_construct_agg(bitmap_bit_position(n % 7 + 8))",
        "theta": "theta_sketch_agg(n % 7)",
        "tupled": "tuple_sketch_agg_double(n % 7, x)",
        "tuplei": "tuple_sketch_agg_integer(n % 7, m)",
        "kll": "kll_sketch_agg_bigint(n)",
        "klld": "kll_sketch_agg_double(x)",
        "kllf": "kll_sketch_agg_float(cast(x AS float))",
        "topk": "approx_top_k_accumulate(n % 7, 100)",
    }.items()
    if made.partition("(")[0] in SQL_ONLY or hasattr(F, made.partition("(")[0])
}

#: The columns that functions go over, of each type that Spark has.
COLUMNS = {
    "i8": "cast(n AS tinyint)",
    "i16": "cast(n AS smallint)",
    "i32": "n",
    "i64": "n * 1000003L",
    "f32": "cast(x AS float)",
    "f64": "x",
    "special": "z",
    "nans": "CASE WHEN z NOT IN (DOUBLE('inf'), DOUBLE('-inf')) THEN z END",
    "dec": "cast(n AS decimal(5, 2)) / 4",
    "dec18": "cast(x AS decimal(18, 4))",
    "dec38": "cast(x AS decimal(38, 20))",
    "str": "s",
    "ci": "s COLLATE UTF8_LCASE",
    "bin": "cast(s AS binary)",
    "bool": "b",
    "date": "date_add(DATE'2024-02-27', n)",
    "ts": "timestamp_micros(n * 1000000007L)",
    "ntz": "cast(timestamp_micros(n * 1000000007L) AS timestamp_ntz)",
    "ym": "make_ym_interval(0, n)",
    "dt": "make_dt_interval(0, n, 0, m)",
    "span": "make_interval(0, 1, 0, n)",
    "arr": "CASE WHEN n % 5 = 0 THEN NULL ELSE array(m, n, NULL) END",
    "arrd": "array(z, 1.5D)",
    "st": "CASE WHEN n % 5 = 0 THEN NULL ELSE struct(m AS a, s AS b) END",
    "map": "map('a', n, concat('of ', coalesce(s, '')), m)",
    "variant": "parse_json(concat('{\"a\": ', coalesce(n, 0), '}'))",
    "void": "NULL",
    "bit": "bitmap_bit_position(n + 8)",
}

INTS = ("i8", "i16", "i32", "i64")
DECIMALS = ("dec", "dec18", "dec38")
FLOATS = ("f32", "f64", "special")
NUMBERS = (*INTS, *DECIMALS, *FLOATS)
INTERVALS = ("ym", "dt")
TIMES = ("date", "ts", "ntz")
#: Of these Spark takes approximate percentiles. Those with NaN depend on the order of rows.
RANKED = (*INTS, *DECIMALS, "f32", "f64", *INTERVALS, *TIMES)
ORDERED = (*RANKED, "special", "str", "ci", "bin", "bool", "arr", "arrd", "st")
HASHED = (*ORDERED, "span")
ALL = (*HASHED, "map", "variant", "void")


#: The most calls of a query.
MOST = 30


#: `product` is not in SQL. Of no rows Spark fails to put together what `approx_top_k` needs.
WITHOUT_FILTER = ("product", "approx_top_k_combine", "expression")


class Text(str):
    """A literal, not the name of a column."""


def literal(argument: Any) -> str:
    """An argument in SQL."""
    if isinstance(argument, Text):
        return f"'{argument}'"
    if isinstance(argument, bytes):
        return f"X'{argument.hex()}'"
    if isinstance(argument, bool):
        return str(argument).lower()
    if isinstance(argument, list):
        return f"array({', '.join(map(literal, argument))})"
    return f"{argument}D" if isinstance(argument, float) else str(argument)


@dataclass(frozen=True)
class Use:
    """A function applied to columns.

    Attributes:
        arguments: names of columns, and literals.
        alike: how alike two results must be.
        then: SQL of what is compared of the result, ``{0}``.
        sql: how the call is written in SQL, if not as the name and the arguments.
        ansi: whether it has a result in ANSI mode, whatever the rows are.
    """

    name: str
    arguments: tuple[Any, ...]
    alike: Alike
    then: str = "{0}"
    sql: str | None = None
    ansi: bool = True

    def text(self) -> str:
        """The call in SQL."""
        return self.sql or f"{self.name}({', '.join(map(literal, self.arguments))})"

    def column(self) -> Column:
        """The call by pyspark's function, if there is one."""
        if self.sql is not None or not hasattr(F, self.name):
            return F.expr(self.text())
        bins = self.name == "histogram_numeric"  # takes columns only
        arguments = [
            F.lit(each) if bins and not isinstance(each, str) else each for each in self.arguments
        ]
        made: Column = getattr(F, self.name)(*arguments)
        return made


def over(
    names: str,
    columns: Sequence[str],
    alike: Alike,
    *more: Any,
    sql: str | None = None,
    then: str = "{0}",
) -> list[Use]:
    """The functions, each over each of the columns."""
    return [
        Use(name, (column, *more), alike, then, sql and sql.format(column))
        for name in names.split()
        for column in columns
    ]


def ties(name: str, alike: Alike) -> list[Use]:
    """Rows that are as great as others."""
    return [Use(name, ("id", column), alike) for column in (*INTS, "dec", "str", "date")]


def pairs(names: str, alike: Alike) -> list[Use]:
    """Functions of two columns."""
    # In ANSI mode the correlation with values that are all the same is a division by zero.
    both = [("f64", "y"), ("i32", "f64"), ("nans", "y"), ("m", "i32")]
    return [
        Use(name, columns, alike, ansi=name != "corr" or columns == both[0])
        for name in names.split()
        for columns in both
    ]


STATISTICS = "stddev stddev_samp stddev_pop std variance var_samp var_pop"
REGRESSIONS = "regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy"
QUARTERS = [0.0, 0.25, 0.5, 1.0]
SPREAD = ("i32", "dec", "f64", "nans")
COMMA = Text(",")


#: Over several functions, and over the key.
EXPRESSIONS = (
    "sum(i32) / count(*) + k",
    "struct(k, max(str) AS most, sort_array(collect_list(i32)) AS all)",
    "CASE WHEN k > 0 THEN max(i32) - min(i32) ELSE count(i32) FILTER (WHERE b) END",
    "sum(i32) FILTER (WHERE b) - sum(i32) FILTER (WHERE NOT b) + sum(i32)",
    "coalesce(avg(f64), 0) * 2 + count_if(b)",
    "concat_ws('-', sort_array(collect_set(str)), k)",
    "k + k + count(*)",
    "sum(i32 + k)",
    "transform(sort_array(collect_list(i32)), n -> n + k)",
    "(SELECT 7) + max(m)",
)

USES: list[Use] = [
    *over("sum try_sum avg mean try_avg", (*INTS, *DECIMALS, *INTERVALS), EXACT),
    *over("sum try_sum avg mean try_avg", FLOATS, CLOSE),
    *over("product", (*INTS, *FLOATS), CLOSE),
    *over("min max", tuple(c for c in ORDERED if c != "ci"), SIGNLESS),
    *over("min max", ("ci",), CASELESS),
    *over("count", ALL, EXACT),
    Use("count", ("i32", "*"), EXACT, sql="count(*)"),
    Use("count", ("i32", "str"), EXACT, sql="count(i32, str)"),
    *over("count_if bool_and bool_or every some any", ("bool",), EXACT),
    *over("bit_and bit_or bit_xor", INTS, EXACT),
    *over("any_value", ALL, ANY),
    *over("any_value", ALL, KNOWN, True),
    *over("first first_value", ALL, FIRST),
    *over("last last_value", ALL, LAST),
    *over("first first_value", ALL, FIRST_KNOWN, True),
    *over("last last_value", ALL, LAST_KNOWN, True),
    *over("max_by min_by", ALL, EXACT, "id"),
    *ties("max_by", MAX_TIE),
    *ties("min_by", MIN_TIE),
    *over("max_by min_by", ("i32", "f64", "str", "arr", "st", "dec38", "map"), EXACT, "id", 3),
    *over("mode", tuple(c for c in HASHED if c != "ci"), MODE),
    *over("mode", ("ci",), MODE_LCASE),
    *over("mode", (*INTS, *DECIMALS, "str", "bin", *TIMES), EXACT, True),
    *over("mode", ("i32", "str"), EXACT, sql="mode() WITHIN GROUP (ORDER BY {0} DESC)"),
    *over("collect_list array_agg", ALL, BAG),
    *over("collect_set", tuple(c for c in HASHED if c != "ci"), SET),
    *over("approx_count_distinct", HASHED, EXACT),
    *over("approx_count_distinct", ("i32", "str"), EXACT, 0.2),
    *over("listagg string_agg", ("str",), TEXT, COMMA),
    *over("listagg string_agg", ("bin",), TEXT, b","),
    *over("listagg", ("str", "i32"), EXACT, sql="listagg({0}, '-') WITHIN GROUP (ORDER BY {0})"),
    *over("string_agg", ("str", "ci"), EXACT,
          sql="string_agg({0}) WITHIN GROUP (ORDER BY id DESC)"),
    *over("percentile", (*NUMBERS, *INTERVALS), SIGNLESS, 0.3),
    *over("percentile", (*NUMBERS, *INTERVALS), SIGNLESS, QUARTERS),
    *over("percentile", ("i32", "f64"), EXACT, sql="percentile({0}, 0.5, m)"),
    *over("percentile_cont", (*NUMBERS, *INTERVALS), SIGNLESS,
          sql="percentile_cont(0.4) WITHIN GROUP (ORDER BY {0} DESC)"),
    *over("percentile_disc", (*NUMBERS, *INTERVALS), SIGNLESS,
          sql="percentile_disc(0.4) WITHIN GROUP (ORDER BY {0})"),
    *over("median", (*NUMBERS, *INTERVALS), SIGNLESS),
    *over("percentile_approx approx_percentile", RANKED, SIGNLESS, 0.3),
    *over("percentile_approx approx_percentile", RANKED, SIGNLESS, QUARTERS, 100),
    *over("percentile_approx", ("i32", "f64"), RANK, 0.4, 5),
    *over(STATISTICS, SPREAD, MOMENTS),
    *over("skewness kurtosis", SPREAD, MOMENTS),
    *pairs("corr covar_pop covar_samp " + REGRESSIONS, MOMENTS),
    *pairs("regr_count", EXACT),
    *over("histogram_numeric", (*INTS, *DECIMALS, "f32", "f64", *INTERVALS, *TIMES), BINS, 100),
    *over("histogram_numeric", ("f64",), HISTOGRAM, 5),
    *over("count_min_sketch", ("i32", "i64", "str", "bin"), EXACT, 0.05, 0.9, 7),
    *over("hll_sketch_agg", ("i32", "i64", "str", "bin"), EXACT,
          then="hll_sketch_estimate({0})"),
    *over("hll_sketch_agg", ("i32", "str"), HLL, 4, then="hll_sketch_estimate({0})"),
    *over("hll_union_agg", ("hll",), EXACT, then="hll_sketch_estimate({0})"),
    *over("bitmap_construct_agg", ("bit",), EXACT),
    *over("bitmap_and_agg bitmap_or_agg", ("bits",), EXACT),
    *over("theta_sketch_agg", ("i32", "i64", "f64", "str", "bin", "arr"), EXACT,
          then="theta_sketch_estimate({0})"),
    *over("theta_union_agg theta_intersection_agg", ("theta",), EXACT,
          then="theta_sketch_estimate({0})"),
    *[
        use
        for kind, value, sketch in (
            ("double", "y", "tupled"), ("integer", "m", "tuplei"))
        for get in (f"tuple_sketch_estimate_{kind}", f"tuple_sketch_summary_{kind}")
        for use in (
            *over(f"tuple_sketch_agg_{kind}", ("i32", "str"), CLOSE, value, then=f"{get}({{0}})"),
            *over(f"tuple_union_agg_{kind} tuple_intersection_agg_{kind}", (sketch,), CLOSE,
                  then=f"{get}({{0}})"),
        )
    ],
    *[
        use
        for kind, columns, sketch in (
            ("bigint", ("i32", "i64"), "kll"),
            ("double", ("f64",), "klld"),
            ("float", ("f32",), "kllf"),
        )
        for get in (
            f"kll_sketch_get_n_{kind}({{0}})",
            f"CASE WHEN kll_sketch_get_n_{kind}({{0}}) > 0 "
            f"THEN kll_sketch_get_quantile_{kind}({{0}}, array(0D, 0.3D, 1D)) END",
        )
        for use in (
            *over(f"kll_sketch_agg_{kind}", columns, EXACT, then=get),
            *over(f"kll_merge_agg_{kind}", (sketch,), EXACT, then=get),
        )
    ],
    *over("approx_top_k", ("i32", "str", "date", "dec", "bool"), TOP, 3),
    *over("approx_top_k_accumulate", ("i32", "str"), TOP, 100,
          then="approx_top_k_estimate({0}, 3)"),
    *[Use("expression", ("k",), CLOSE, sql=text) for text in EXPRESSIONS],
    *over("approx_top_k_combine", ("topk",), COUNTS, 100, then="approx_top_k_estimate({0}, 3)"),
]  # fmt: skip

#: Refused by name, as they are by Spark in a stream or in any query.
REFUSED = {
    "count_distinct": "count(DISTINCT n)",
    "sum_distinct": "sum(DISTINCT n)",
    "listagg_distinct": "listagg(DISTINCT s)",
    "string_agg_distinct": "string_agg(DISTINCT s)",
    "grouping": "grouping(k)",
    "grouping_id": "grouping_id(k)",
    "measure": "measure(n)",
}


def is_there(use: Use) -> bool:
    """Whether this version of Spark has it."""
    if use.sql is None and use.name in ("max_by", "min_by") and len(use.arguments) == 3:
        return "k" in inspect.signature(getattr(F, use.name)).parameters
    return use.name in SQL_ONLY or hasattr(F, use.name)


def groups() -> dict[str, list[Use]]:
    """The uses, by the column that they go over first; at most so many together."""
    of: dict[str, list[Use]] = {}
    for use in filter(is_there, USES):
        first = use.arguments[0]
        kind = "sketches" if first in SKETCHES else first
        kind = (
            "pairs" if first in SKETCHES or use.name.startswith(("corr", "covar", "regr")) else kind
        )
        of.setdefault(kind, []).append(use)
    return {
        f"{name}{i // MOST + 1 if len(uses) > MOST else ''}": uses[i : i + MOST]
        for name, uses in of.items()
        for i in range(0, len(uses), MOST)
    }
