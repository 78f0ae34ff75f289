"""The streaming query: flights in, one row per flight out, state kept per aircraft."""

import keystate
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from .legs import LEGS, AircraftLegs
from .prepare import FLIGHTS
from .workspace import Workspace


def flights(spark: SparkSession, workspace: Workspace) -> DataFrame:
    """The whole input as a batch."""
    return spark.read.schema(FLIGHTS).parquet(str(workspace.input))


def start(spark: SparkSession, workspace: Workspace) -> StreamingQuery:
    """Starts the query, or resumes it from its checkpoint; it ends when all input is taken."""
    arriving = (
        spark.readStream.schema(FLIGHTS)
        .option("maxFilesPerTrigger", 1)  # see prepare.py: one file keeps the order of departure
        .parquet(str(workspace.input))
    )
    legs = keystate.keyed(arriving, "tailnum").process(AircraftLegs(), LEGS, name="aircraft-legs")
    observed = legs.observe(
        "legs", sf.max("minute").alias("minute"), sf.sum("carried").alias("carried")
    )
    return (
        observed.writeStream.format("parquet")
        .option("path", str(workspace.result))
        .option("checkpointLocation", str(workspace.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
