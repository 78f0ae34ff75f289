// A count by key with Spark's transformWithState, to be used from Python: what bench.latency
// compares with.
import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.streaming.{
  OutputMode,
  StatefulProcessor,
  TimeMode,
  TimerValues,
  TTLConfig,
  ValueState
}

class SparkCount extends StatefulProcessor[Long, (Long, Long), (Long, Long, Long)] {
  @transient private var count: ValueState[Long] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    count = getHandle.getValueState("count", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[(Long, Long)],
      timers: TimerValues
  ): Iterator[(Long, Long, Long)] = rows.map { case (_, source) =>
    val n = (if (count.exists()) count.get() else 0L) + 1
    count.update(n)
    (key, n, source)
  }
}

object Count {

  /** @param rows columns `key` and `source`, both long */
  def transformWithState(rows: DataFrame): DataFrame = {
    import rows.sparkSession.implicits._
    rows
      .as[(Long, Long)]
      .groupByKey(_._1)
      .transformWithState(new SparkCount, TimeMode.None(), OutputMode.Update())
      .toDF("key", "n", "source")
  }
}
