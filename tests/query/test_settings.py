"""Settings that are wrong fail a query at its start, by name, whatever it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

WRONG = [
    ("spark.keystate.rescale.onRestart", "bogus", "'auto' or 'off'"),
    ("spark.keystate.worker.maxCachedKeys", "-5", "a whole number from 1 on"),
    ("spark.keystate.worker.maxCachedKeys", "0", "a whole number from 1 on"),
    ("spark.keystate.worker.inlineEntries", "abc", "a whole number from 0 on"),
    ("spark.keystate.maxParallelism", "40000", "a whole number from 1 to 32768"),
    ("spark.keystate.broadcast.check", "maybe", "'true' or 'false'"),
    ("spark.keystate.restart.keepSeconds", "1m", "a whole number from 0 on"),
    ("spark.keystate.lockTimeoutMs", "1s", "a whole number from 1 on"),
]


def kept(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(lambda row, ctx: [row], "key long")


def test_a_wrong_setting_fails_the_query_at_its_start(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    fed = stream("key long")
    fed.feed([(1,)])
    for key, value, allowed in WRONG:
        before = spark.conf.get(key, None)
        message = rf"\[KEYSTATE_BAD_SETTING\] {key} is '{value}', and must be {allowed}"
        settings(**{key: value})
        try:
            with pytest.raises(StreamingQueryException, match=message):
                fed.run(kept)
            with pytest.raises(Exception, match=message):
                kept(spark.range(1).toDF("key")).collect()
        finally:
            if before is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, before)
    assert [tuple(row) for row in fed.run(kept)] == [(1,)]


def test_sparks_own_operators_too(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    fed = stream("key long")
    fed.feed([(1,)])
    settings(**{"spark.keystate.rescale.onRestart": "bogus"})
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_BAD_SETTING.*onRestart"):
        fed.run(lambda df: df.groupBy("key").count(), mode="update")
