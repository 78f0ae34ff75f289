"""Writes each result into PostgreSQL once, by its prepared transactions.

python -m examples.postgres_sink "host=localhost dbname=shop" INPUT CHECKPOINT

INPUT is a folder of JSON files with `user` and `amount`. The server needs
`max_prepared_transactions` above 0, at least twice the number of partitions. Needs `psycopg`.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

import keystate
import psycopg
from keystate import KeyedProcessFunction, RuntimeContext, ValueStateDescriptor
from keystate.sinks import TwoPhaseCommitSink
from psycopg import errors, sql
from pyspark.sql import SparkSession


class PostgresSink(TwoPhaseCommitSink[Any, tuple[str, int]]):
    """Inserts rows into a table.

    Args:
        conninfo: the database, as for ``psycopg.connect``.
        table: the table, whose columns are those of the rows.
    """

    # The name, and PostgreSQL's own number: by that it tells what became of a transaction.
    transaction_type = "struct<name string, number long>"

    def __init__(self, conninfo: str, table: str) -> None:
        self.conninfo = conninfo
        self.table = table

    def open(self, runtime_context: RuntimeContext) -> None:
        self.writing: Any = None
        # Ends transactions, each statement at once.
        self.ending = psycopg.connect(self.conninfo, autocommit=True)

    def close(self) -> None:
        self.ending.close()

    def begin_transaction(self, transaction_id: str) -> tuple[str, int]:
        self.writing = psycopg.connect(self.conninfo)
        # A row that an attempt before has locked: fail, and be run again once that has ended.
        self.writing.execute("SET LOCAL lock_timeout = '20s'")
        (number,) = self.writing.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        return transaction_id, number

    def invoke(self, transaction: tuple[str, int], value: Any, context: Any) -> None:
        columns = sql.SQL(", ").join(map(sql.Identifier, value.__fields__))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(value))
        self.writing.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(self.table), columns, places
            ),
            tuple(value),
        )

    def pre_commit(self, transaction: tuple[str, int]) -> None:
        name, _ = transaction
        self.writing.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(name)))
        self.writing.close()

    def commit(self, transaction: tuple[str, int]) -> None:
        name, number = transaction
        try:
            self.ending.execute(sql.SQL("COMMIT PREPARED {}").format(sql.Literal(name)))
        except errors.UndefinedObject:
            # Committed before; NULL if that is too long ago for PostgreSQL to know.
            asked = "SELECT pg_xact_status(%s::text::xid8)"
            (status,) = self.ending.execute(asked, (number,)).fetchone()  # type: ignore[misc]
            if status == "aborted":
                raise RuntimeError(
                    f"transaction {name} was rolled back: its rows are lost"
                ) from None

    def abort(self, transaction: tuple[str, int]) -> None:
        self.writing.close()

    def recover_and_abort(self, transaction: tuple[str, int]) -> None:
        name, _ = transaction
        with contextlib.suppress(errors.UndefinedObject):
            self.ending.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(name)))

    def prepared_transactions(self, prefix: str) -> dict[str, tuple[str, int]]:
        found = self.ending.execute(
            "SELECT gid FROM pg_prepared_xacts "
            "WHERE database = current_database() AND starts_with(gid, %s)",
            (prefix,),
        )
        return {name: (name, 0) for (name,) in found}


class Totals(KeyedProcessFunction):
    """Emits a user's number of payments and their sum after each payment."""

    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        self.sum.update(self.sum.value() + row.amount)
        yield row.user, self.count.value(), self.sum.value()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("conninfo")
    parser.add_argument("input")
    parser.add_argument("checkpoint")
    given = parser.parse_args(arguments)
    with psycopg.connect(given.conninfo) as database:
        # No two results have the same user and payment: PostgreSQL would refuse them.
        database.execute(
            'CREATE TABLE IF NOT EXISTS totals ("user" text, payments bigint, total bigint, '
            'PRIMARY KEY ("user", payments))'
        )
    builder = SparkSession.builder.config(
        "spark.sql.streaming.stateStore.checkpointFormatVersion", "2"
    )
    spark = keystate.configure(builder).getOrCreate()
    payments = (
        spark.readStream.schema("user string, amount long")
        .option("maxFilesPerTrigger", 1)
        .json(given.input)
    )
    totals = keystate.keyed(payments, "user").process(
        Totals(), "user string, payments long, total long"
    )
    query = (
        keystate.stream(totals)
        .add_sink(PostgresSink(given.conninfo, "totals"))
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
