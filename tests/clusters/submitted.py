"""spark-submit of app.py, with what is shipped to the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pyspark

from tests.clusters.shipped import Shipped
from tests.fault import events
from tests.fault.drivers import SPARK_HOME, Started

TO_THE_END = json.dumps({"availableNow": True})
#: So that there is time to do something to a query before it has read all.
SLOWLY = json.dumps({"processingTime": "4 seconds"})
#: Whether an executor that goes hands on what it has. Those of Spark 4.1 may break by it.
HANDS_ON = "false" if pyspark.__version__.startswith("4.1.") else "true"
#: Small executors that can be told to go.
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": HANDS_ON,
    "spark.storage.decommission.shuffleBlocks.enabled": HANDS_ON,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.keystate.backend": "rocksdb",
}


def submitted(
    shipment: Shipped,
    folder: Path,
    partitions: int,
    trigger: str,
    cluster: list[str],
    settings: dict[str, str],
    seconds: float = 0,
    checkpoint: str = "",
    **environment: str,
) -> Started:
    """The query's driver, or what waits for one in the cluster.

    Args:
        shipment: also what a driver outside of the cluster has.
        folder: of the query. The event log is in its folder `N-partitions`.
        partitions: of the shuffle.
        trigger: as JSON.
        cluster: the options of spark-submit that name the cluster.
        settings: besides, or instead of, `SETTINGS`.
        seconds: that the function takes for a row.
        checkpoint: the query's; in its folder unless it is named.
        environment: what spark-submit is told.
    """
    log = folder / f"{partitions}-partitions"
    (log / "events").mkdir(parents=True)
    command = [str(SPARK_HOME / "bin" / "spark-submit"), *cluster, *shipment.options(folder)]
    own = {**SETTINGS, **events.settings(log), **settings}
    if "cluster" not in cluster:
        own["spark.pyspark.driver.python"] = str(shipment.environment / "bin" / "python")
    for key, value in own.items():
        command += ["--conf", f"{key}={value}"]
    checkpoint = checkpoint or (folder / "checkpoint").as_uri()
    command += [str(Path(__file__).with_name("app.py")), str(folder), checkpoint]
    command += [str(partitions), trigger, str(seconds)]
    # Nothing of the clone reaches a process of the cluster.
    return Started(command, folder / "driver.log", PYTHONPATH="", **environment)
