// Spark's own operators in Scala, whose state the functions of test_import_as.py take over.
import java.sql.Timestamp

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Encoders}
import org.apache.spark.sql.streaming._

final case class Fed(user: String, n: Long, at: Timestamp)

final case class Total(total: Long, rows: Int, last: Option[String])

object Total {
  def after(before: Option[Total], row: Fed): Total = {
    val (total, rows) = before.fold((0L, 0))(state => (state.total, state.rows))
    Total(total + row.n, rows + 1, Option.when(row.n % 2 == 1)(s"odd ${row.n}"))
  }
}

/** States of each kind, of plain values and of classes, and a timer for each row. */
class SparkTransform[K](timed: Boolean) extends StatefulProcessor[K, Fed, String] {
  @transient private var count: ValueState[Long] = _
  @transient private var total: ValueState[Total] = _
  @transient private var all: ListState[Long] = _
  @transient private var totals: ListState[Total] = _
  @transient private var by: MapState[Long, Total] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val (long, product) = (Encoders.scalaLong, Encoders.product[Total])
    count = getHandle.getValueState("count", long, TTLConfig.NONE)
    total = getHandle.getValueState("total", product, TTLConfig.NONE)
    all = getHandle.getListState("all", long, TTLConfig.NONE)
    totals = getHandle.getListState("totals", product, TTLConfig.NONE)
    by = getHandle.getMapState("by", long, product, TTLConfig.NONE)
  }

  override def handleInputRows(
      key: K,
      rows: Iterator[Fed],
      timers: TimerValues
  ): Iterator[String] = {
    rows.foreach { row =>
      count.update((if (count.exists()) count.get() else 0L) + 1)
      total.update(Total.after(Option.when(total.exists())(total.get()), row))
      all.appendValue(row.n)
      totals.appendValue(total.get())
      val rest = row.n % 2
      by.updateValue(rest, Total.after(Option.when(by.containsKey(rest))(by.getValue(rest)), row))
      if (timed) getHandle.registerTimer(SparkStates.Far + row.n)
    }
    Iterator.empty
  }
}

object SparkStates {

  /** A time that does not come. */
  final val Far = 4000000000000L

  /** The state of a stream of user and n.
    *
    * @param how
    *   the operator, its time mode, and "user" or "pair" for the key
    */
  def state(rows: DataFrame, how: Array[String]): DataFrame = {
    val session = rows.sparkSession
    import session.implicits._
    val Array(operator, mode, key) = how
    val timed = rows.selectExpr("*", "timestamp_seconds(1000 + n) AS at")
    val fed =
      (if (mode == "EventTime") timed.withWatermark("at", "0 seconds") else timed).as[Fed]
    if (key == "user") keyed(fed, operator, mode)(_.user)
    else keyed(fed, operator, mode)(row => (row.user, row.n % 2))
  }

  private def keyed[K: Encoder](fed: Dataset[Fed], operator: String, mode: String)(
      key: Fed => K
  ): DataFrame = {
    val session = fed.sparkSession
    import session.implicits._
    val grouped = fed.groupByKey(key)
    operator match {
      case "transformWithState" =>
        val time = mode match {
          case "None" => TimeMode.None()
          case "ProcessingTime" => TimeMode.ProcessingTime()
          case "EventTime" => TimeMode.EventTime()
        }
        grouped
          .transformWithState(new SparkTransform[K](mode != "None"), time, OutputMode.Append())
          .toDF("told")
      case "flatMapGroupsWithState" =>
        grouped
          .flatMapGroupsWithState[Total, String](
            OutputMode.Append(),
            GroupStateTimeout.EventTimeTimeout()
          ) { (_, rows, state) =>
            state.update(rows.toSeq.sortBy(_.n).foldLeft(state.getOption) { (before, row) =>
              Some(Total.after(before, row))
            }.get)
            state.setTimeoutTimestamp(Far)
            Iterator.empty
          }
          .toDF("told")
    }
  }
}
