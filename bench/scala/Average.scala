// W1 in Scala: Keystate against Spark's transformWithState, in one session.
import java.lang.management.ManagementFactory

import com.sun.management.OperatingSystemMXBean
import keystate._
import org.apache.spark.sql.{Dataset, Encoders, SparkSession}
import org.apache.spark.sql.streaming.{
  OutputMode,
  StatefulProcessor,
  TimeMode,
  TimerValues,
  Trigger,
  TTLConfig,
  ValueState => SparkValueState
}

class KeystateAverage extends RichFlatMapFunction[(Long, Long), (Long, Long)] {
  @transient private var sum: ValueState[(Long, Long)] = _

  override def open(ctx: RuntimeContext): Unit =
    sum = ctx.getState(ValueStateDescriptor[(Long, Long)]("average"))

  override def flatMap(in: (Long, Long), out: Collector[(Long, Long)]): Unit = {
    val before = sum.value()
    if (before == null) sum.update((1L, in._2))
    else {
      out.collect((in._1, (before._2 + in._2) / 2))
      sum.clear()
    }
  }
}

class SparkAverage extends StatefulProcessor[Long, (Long, Long), (Long, Long)] {
  @transient private var sum: SparkValueState[(Long, Long)] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    sum = getHandle.getValueState(
      "average",
      Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong),
      TTLConfig.NONE
    )

  override def handleInputRows(
      key: Long,
      rows: Iterator[(Long, Long)],
      timers: TimerValues
  ): Iterator[(Long, Long)] = rows.flatMap { in =>
    val before = sum.get()
    if (before == null) {
      sum.update((1L, in._2))
      None
    } else {
      sum.clear()
      Some((key, (before._2 + in._2) / 2))
    }
  }
}

object Average {
  private val cpu = ManagementFactory.getPlatformMXBean(classOf[OperatingSystemMXBean])
  private val keystateProvider = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
  private val rocksProvider =
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  def main(args: Array[String]): Unit = {
    val Array(folder, rows, keys, runs, wanted) = args
    val spark = SparkSession.builder().getOrCreate()
    import spark.implicits._
    spark.sparkContext.setLogLevel("ERROR")
    val input = s"$folder/input"
    spark
      .range(rows.toLong)
      .selectExpr(s"id * 7919 % ${keys.toLong} as _1", "id % 1000 as _2")
      .coalesce(2)
      .write
      .parquet(input)
    val stream = spark.readStream.schema("_1 long, _2 long").parquet(input).as[(Long, Long)]
    val contenders = Seq[(String, String, Dataset[(Long, Long)] => Dataset[(Long, Long)])](
      ("keystate", keystateProvider, _.keyBy(_._1).flatMap(new KeystateAverage)),
      (
        "transformWithState",
        rocksProvider,
        _.groupByKey(_._1).transformWithState(new SparkAverage, TimeMode.None(), OutputMode.Append())
      )
    )
    val chosen = contenders.filter { case (name, _, _) => wanted.split(",").contains(name) }
    for (run <- 0 to runs.toInt; (name, provider, build) <- chosen) {
      spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
      val query = build(stream).writeStream
        .format("noop")
        .option("checkpointLocation", s"$folder/$name$run")
        .trigger(Trigger.AvailableNow)
      val (started, cpuBefore) = (System.nanoTime, cpu.getProcessCpuTime)
      val running = query.start()
      running.awaitTermination()
      val seconds = (System.nanoTime - started) / 1e9
      val cpuSeconds = (cpu.getProcessCpuTime - cpuBefore) / 1e9
      val kept = running.lastProgress.stateOperators.head.numRowsTotal
      if (run > 0)
        println(
          f"""{"name": "$name", "seconds": $seconds%.3f, "cpu": $cpuSeconds%.3f, "kept": $kept}"""
        )
    }
    spark.stop()
  }
}
