"""The streaming query: flights in, one row per flight out, state kept per aircraft.

The weather goes to every subtask as a broadcast stream. It is taken twice as fast, so that it is
ahead of the flights: after a driver was killed, the file source may put two files of flights into
one micro-batch.
"""

import keystate
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from .legs import LEGS, VISIBILITY, AircraftLegs
from .prepare import FLIGHTS, ORDER, WEATHER
from .workspace import Workspace


def flights(spark: SparkSession, workspace: Workspace) -> DataFrame:
    """The whole input as a batch: the flights, each with the weather when it left."""
    left = spark.read.schema(FLIGHTS).parquet(str(workspace.input))
    weather = spark.read.schema(WEATHER).parquet(str(workspace.weather))
    return left.withColumn("hour", sf.expr("minute DIV 60")).join(
        weather, ["origin", "hour"], "left"
    )


def legs(spark: SparkSession, workspace: Workspace, function: AircraftLegs) -> DataFrame:
    """The keyed operator, which ``keystate.replay`` takes."""
    arriving = (
        spark.readStream.schema(FLIGHTS)
        .option("maxFilesPerTrigger", 1)  # see prepare.py: the files are in order of departure
        .parquet(str(workspace.input))
    )
    weather = (
        spark.readStream.schema(WEATHER)
        .option("maxFilesPerTrigger", 2)
        .parquet(str(workspace.weather))
    )
    return (
        keystate.keyed(arriving, "tailnum", order_by=ORDER)
        .connect(keystate.broadcast(weather, VISIBILITY))
        .process(function, LEGS, name="aircraft-legs")
    )


def start(
    spark: SparkSession, workspace: Workspace, function: AircraftLegs | None = None
) -> StreamingQuery:
    """Starts the query, or resumes it from its checkpoint; it ends when all input is taken."""
    observed = legs(spark, workspace, function or AircraftLegs()).observe(
        "legs",
        sf.count("*").alias("flights"),
        sf.max("minute").alias("minute"),
        sf.sum("carried").alias("carried"),
    )
    return (
        observed.writeStream.format("parquet")
        .option("path", str(workspace.result))
        .option("checkpointLocation", str(workspace.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
