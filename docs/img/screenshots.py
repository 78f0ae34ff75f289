"""Makes the pictures that docs/operations.md shows, with an installed Chromium.

python -m docs.img.screenshots CHECKPOINT      of the page, for a checkpoint
python -m docs.img.screenshots                 of the tab in Spark's web UI
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import keystate
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm import bridge
from keystate._jvm.local import local_reader
from keystate.tools.page import document
from PIL import Image
from pyspark.sql import SparkSession

from tests.query.browser import Browser

HERE = Path(__file__).parent
SHOWN = "/data/query/checkpoint"


def main(checkpoint: str) -> None:
    browser = Browser.find()
    assert browser is not None, "no Chromium is installed"
    with local_reader(verbose=False) as reader:
        found = admin.inspect(checkpoint, spark=reader)  # type: ignore[arg-type]
        statistics = bridge.statistics(reader, found)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        page, phone = Path(folder, "page.html"), Path(folder, "phone.html")
        page.write_text(document({**found, "checkpoint": SHOWN}, statistics, []))
        # Chromium makes no window that is as narrow as a phone.
        phone.write_text(
            '<body style="margin:0"><iframe src="page.html" '
            'style="border:0;width:390px;height:1130px"></iframe>'
        )
        browser.screenshot(page.as_uri(), HERE / "page.png", 1180, 1900)
        browser.screenshot(phone.as_uri(), HERE / "page-phone.png", 500, 1130, dark=True)
    for name, width in (("page.png", 1180), ("page-phone.png", 390)):
        picture = Image.open(HERE / name)
        picture.crop((0, 0, width, picture.height)).quantize(200).save(HERE / name, optimize=True)


class Orders(KeyedProcessFunction):
    """Counts a customer's orders, and keeps them for a day."""

    def open(self, ctx: Any) -> None:
        self.orders = ctx.get_state(ValueStateDescriptor("orders", "long", default=0))
        self.last = ctx.get_list_state(ListStateDescriptor("last", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.orders.update(self.orders.value() + 1)
        self.last.add(row.value)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 86_400_000)
        yield row.customer, self.orders.value()

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.last.clear()


def tab() -> None:
    """A query over made-up rows, some of whose keys come more often than others."""
    browser = Browser.find()
    assert browser is not None, "no Chromium is installed"
    builder = SparkSession.builder.master("local[2]").appName("orders")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.keystate.ui.sampleKeys", "10")
    spark = keystate.configure(builder).getOrCreate()
    rate = spark.readStream.format("rate").option("rowsPerSecond", 5000).load()
    rows = rate.selectExpr("int(pow(rand(), 4) * 3000) as customer", "value")
    with tempfile.TemporaryDirectory() as folder:
        query = (
            keystate.keyed(rows, "customer")
            .process(Orders(), "customer int, orders long")
            .writeStream.queryName("orders")
            .format("noop")
            .option("checkpointLocation", folder)
            .trigger(processingTime="2 seconds")
            .start()
        )
        while len(query.recentProgress) < 6:
            query.awaitTermination(1)
        browser.screenshot(f"{spark.sparkContext.uiWebUrl}/keystate/", HERE / "tab.png", 1400, 1300)
        query.stop()
    spark.stop()
    picture = Image.open(HERE / "tab.png")
    picture.quantize(200).save(HERE / "tab.png", optimize=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        tab()
