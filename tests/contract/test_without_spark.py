"""What the harness does in Spark's place is what Spark does: key groups, and types from DDL."""

from __future__ import annotations

import random
from typing import Any

import pytest
from keystate._types.codec import struct_codec
from keystate._types.ddl import parse_ddl
from keystate._types.hash import KeyGroups
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tests.contract.type_cases import CASES

KEYS = {name: case for name, case in CASES.items() if case.is_key}


def test_key_groups_are_those_of_sparks_hash(spark: Any) -> None:
    names = list(KEYS)
    rng = random.Random(3)
    schema = T._parse_datatype_string(", ".join(f"{n} {KEYS[n].ddl}" for n in names))
    rows = [tuple(rng.choice([*KEYS[n].values, None]) for n in names) for _ in range(60)]
    rows += [tuple(None for _ in names)]
    choices = [*([name] for name in names), names, *(rng.sample(names, 4) for _ in range(5))]
    hashes = spark.createDataFrame(rows, schema).select([F.hash(*chosen) for chosen in choices])
    for chosen, of_rows in zip(choices, zip(*hashes.collect(), strict=True), strict=True):
        kind = T.StructType([schema[name] for name in chosen])
        keys = [tuple(row[names.index(name)] for name in chosen) for row in rows]
        array = struct_codec(kind).encode(keys)
        for max_parallelism in (1, 128, 32768):
            expected = [of_row % max_parallelism for of_row in of_rows]
            assert KeyGroups(kind, max_parallelism).of(array) == expected, chosen


def test_key_groups_of_random_keys(spark: Any) -> None:
    rng = random.Random(9)
    alphabet = ["a", "Z", "é", "€", "😀", "\0", " "]
    rows = [
        (
            "".join(rng.choices(alphabet, k=rng.randrange(12))),
            rng.getrandbits(64) - 2**63,
            rng.getrandbits(32) - 2**31,
            rng.randbytes(rng.randrange(12)),
            rng.uniform(-1e9, 1e9),
            [rng.randrange(9) for _ in range(rng.randrange(4))],
        )
        for _ in range(500)
    ]
    schema = T._parse_datatype_string(
        "s string, l long, i int, b binary, d double, a array<smallint>"
    )
    df = spark.createDataFrame(rows, schema)
    expected = [row[0] for row in df.select(F.pmod(F.hash(*df.columns), F.lit(1000))).collect()]
    assert KeyGroups(schema, 1000).of(struct_codec(schema).encode(rows)) == expected


TYPES = [
    *(case.ddl for case in CASES.values()),
    "INT",
    "integer",
    "bigint",
    "real",
    "dec(5)",
    "numeric",
    "decimal ( 12 , 3 )",
    "time",
    "timestamp_ltz",
    "void",
    "interval day",
    "interval hour to second",
    "interval day to hour",
    "count long, total long",
    "a: int, b: string",
    "a int not null, `b c` string comment 'it\\'s', d array<struct<x:int not null>>",
    "struct<>",
    "struct<a: struct<b: int>, c int>",
    "key string, date date, timestamp timestamp, interval interval day to second",
    "`a``b` int",
    "a int COMMENT 'x, y' , b int NOT NULL COMMENT \"z\"",
    "map<string,array<map<int,decimal(3,1)>>>",
]


@pytest.mark.parametrize("ddl", TYPES)
def test_ddl_means_what_it_means_to_spark(spark: Any, ddl: str) -> None:
    assert parse_ddl(ddl).jsonValue() == T._parse_datatype_string(ddl).jsonValue()


@pytest.mark.parametrize(
    "ddl",
    ["a", "array<int", "map<int>", "a int,", "int int int", "a int not", "no_type", "a;b"],
)
def test_ddl_that_spark_refuses_is_refused(spark: Any, ddl: str) -> None:
    with pytest.raises(Exception):  # noqa: B017
        T._parse_datatype_string(ddl)
    with pytest.raises(ValueError):
        parse_ddl(ddl)
