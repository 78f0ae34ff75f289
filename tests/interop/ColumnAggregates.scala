// The aggregates of test_aggregates_in_turns.py in Scala, each applied to a DataFrame.
import java.time.Duration

import keystate._
import keystate.stream.WindowedDataset
import keystate.windows._
import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame, Row}

object ColumnAggregates {
  private def total = sum("value").as("total")

  private def others: Seq[Column] = Seq(
    size(collect_list("value")).as("n"),
    sort_array(collect_set("value")).as("values"),
    max_by(col("value"), struct("time", "value")).as("last"),
    expr("sum(value) FILTER (WHERE value > 50)").as("great"),
    approx_count_distinct("value").as("different"),
    (sum("value") / count(lit(1))).as("mean")
  )

  private val late =
    OutputTag[Row]("late")(TypeInformation.ddl("key string, value long, time timestamp"))

  def keys(rows: DataFrame): DataFrame = rows.keyed("key").aggregate(total, others: _*)

  def tumbling(rows: DataFrame): DataFrame =
    windows(rows, TumblingEventTimeWindows.of(Duration.ofMillis(1000)))
      .aggregate(total, others: _*)

  def sliding(rows: DataFrame): DataFrame =
    windows(rows, SlidingEventTimeWindows.of(Duration.ofMillis(1500), Duration.ofMillis(400)))
      .aggregate(total, others: _*)

  def sessions(rows: DataFrame): DataFrame =
    windows(rows, EventTimeSessionWindows.withGap(Duration.ofMillis(250)))
      .sideOutputLateData(late)
      .aggregate(total, others: _*)
      .withSideOutputs(late)

  private def windows(
      rows: DataFrame,
      assigner: WindowAssigner[Any, TimeWindow]
  ): WindowedDataset[Row, TimeWindow] = rows
    .withWatermark("time", "300 milliseconds")
    .keyed("key")
    .window(assigner)
    .allowedLateness(Duration.ofMillis(700))
}
