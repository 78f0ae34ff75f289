"""Orders are completed by a service that is asked over HTTP, many questions at a time.

Each answer takes 50 ms. A customer's name is asked for once and kept for a day; a customer whom the
service does not answer for in time goes without a name. The service runs here, in a thread.

python examples/async_lookups.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import keystate
from keystate import (
    AsyncKeyedProcessFunction,
    FixedDelayRetryStrategy,
    RuntimeContext,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame, SparkSession

CUSTOMERS = 400


class Names(BaseHTTPRequestHandler):
    """The service. It is busy the first time that customer 3 comes, and never ends customer 7."""

    was_busy = False

    def do_GET(self) -> None:
        customer = int(self.path.rpartition("/")[2])
        busy = customer == 3 and not Names.was_busy
        Names.was_busy |= busy
        time.sleep(9 if customer == 7 else 0.05)
        body = json.dumps({"name": f"Customer {customer}"}).encode()
        self.send_response(503 if busy else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class Service(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that did not wait is no error."""


async def get_json(host: str, port: int, path: str) -> Any:
    """Asks an HTTP server; raises ConnectionError if it has no answer now."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        await writer.drain()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if b" 200 " not in head.splitlines()[0]:
        raise ConnectionError(head.splitlines()[0].decode())
    return json.loads(body)


class WithName(AsyncKeyedProcessFunction):
    """Gives each order the name of its customer."""

    def __init__(self, host: str, port: int) -> None:
        self.server = host, port

    def open(self, ctx: RuntimeContext) -> None:
        known: ValueStateDescriptor[str] = ValueStateDescriptor("name", "string")
        known.enable_time_to_live(StateTtlConfig.new_builder(timedelta(days=1)).build())
        self.name = ctx.get_state(known)

    async def process_element(self, order: Any, ctx: Any) -> tuple[str, int]:
        name = self.name.value()
        if name is None:
            answer = await get_json(*self.server, f"/customers/{order.customer}")
            name = answer["name"]
            self.name.update(name)
        return name, order.amount

    def timeout(self, order: Any, ctx: Any) -> tuple[str, int]:
        return "unknown", order.amount


def main() -> None:
    service = Service(("127.0.0.1", 0), Names)
    Thread(target=service.serve_forever, daemon=True).start()
    host, port = service.server_address[:2]

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2)
    spark = keystate.configure(builder).getOrCreate()
    folder = Path(tempfile.mkdtemp())
    (folder / "orders").mkdir()
    for day in range(2):
        lines = (f"{customer},{10 * day + customer % 10}" for customer in range(CUSTOMERS))
        (folder / "orders" / f"{day}.csv").write_text("\n".join(lines))

    orders = (
        spark.readStream.schema("customer long, amount long")
        .option("maxFilesPerTrigger", 1)
        .csv(str(folder / "orders"))
    )
    named = keystate.keyed(orders, "customer").process(
        WithName(str(host), int(port)),
        "name string, amount long",
        capacity=100,
        timeout=timedelta(seconds=3),
        retry=FixedDelayRetryStrategy(3, 100),
    )

    def show(df: DataFrame, day: int) -> None:
        rows = df.collect()
        print(f"day {day}: {len(rows)} orders")
        wanted = ("Customer 3", "Customer 4", "unknown")
        for row in sorted(row for row in rows if row.name in wanted):
            print(tuple(row))

    query = (
        named.writeStream.foreachBatch(show)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    took = [progress["durationMs"]["addBatch"] for progress in query.recentProgress]
    print(f"{CUSTOMERS} answers of 50 ms and more took {took[0]} ms, then {took[1]} ms")
    spark.stop()
    service.shutdown()


if __name__ == "__main__":
    main()
