// The functions of test_functions_in_turns.py in Scala, each applied to a DataFrame.
import java.util.concurrent.TimeUnit.SECONDS

import scala.concurrent.{ExecutionContext, Future}

import keystate._
import org.apache.spark.sql.{DataFrame, Row}

/** The function of the same name in test_functions_in_turns.py. */
class Asking extends AsyncKeyedProcessFunction[String, Row, (String, String)] {
  @transient private var count: ValueState[Long] = _
  @transient private var asked: ListState[Long] = _
  @transient private var byRest: MapState[Long, Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    count = ctx.getState(ValueStateDescriptor("count", 0L))
    asked = ctx.getListState(ListStateDescriptor[Long]("asked"))
    byRest = ctx.getMapState(MapStateDescriptor[Long, Long]("by_rest"))
  }

  private def told = s"${count.value()} ${asked.get().mkString(",")} " +
    byRest.entries().map(e => s"${e.getKey}=${e.getValue}").toSeq.sorted.mkString(",")

  override def processElement(row: Row, ctx: Context): Future[IterableOnce[(String, String)]] = {
    implicit val executor: ExecutionContext = ctx.executionContext
    val (n, x) = (count.value() + 1, row.getAs[Long]("x"))
    for {
      _ <- Future(Thread.sleep(x % 3))(ExecutionContext.global)
      _ = asked.add(x)
      _ <- Future(Thread.sleep(x % 2))(ExecutionContext.global)
    } yield {
      count.update(n)
      byRest.put(x % 3, n)
      ctx.timerService().registerEventTimeTimer(ctx.timestamp() + 1000)
      Seq((ctx.getCurrentKey, told))
    }
  }

  override def onTimer(time: Long, ctx: OnTimerContext): Future[IterableOnce[(String, String)]] =
    Future(())(ExecutionContext.global)
      .map(_ => Seq((ctx.getCurrentKey, s"timer $time $told")))(ctx.executionContext)
}

/** The function Totals in test_functions_in_turns.py, in Flink's spelling. */
class AskedTotal extends RichAsyncFunction[Row, (String, Long)] {
  @transient private var total: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    total = ctx.getState(ValueStateDescriptor("total", 0L))

  override def asyncInvoke(row: Row, resultFuture: ResultFuture[(String, Long)]): Unit =
    Future(2 * row.getAs[Long]("x"))(ExecutionContext.global).foreach { answer =>
      resultFuture.complete { () =>
        total.update(total.value() + answer)
        Seq((row.getAs[String]("key"), total.value()))
      }
    }(ExecutionContext.global)
}

/** The function of the same name in test_functions_in_turns.py. */
class Doubles extends KeyedBatchFunction[String, Row, (String, Long)] {
  @transient private var total: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    total = ctx.getState(ValueStateDescriptor("total", 0L))

  override def processBatch(
      batch: KeyedBatch[String, Row],
      ctx: SideOutputContext,
      out: Collector[(String, Long)]
  ): Unit = {
    val totals = batch.values(total).toArray
    batch.elements.lazyZip(batch.keyOfElement).foreach { (row, key) =>
      totals(key) += 2 * row.getAs[Long]("x")
    }
    batch.update(total, totals)
    batch.keys.zip(totals).foreach(out.collect)
  }
}

object OverlappingFunctions {
  def asking(df: DataFrame): DataFrame = df
    .withWatermark("time", "0 seconds")
    .keyed("key")
    .process(new Asking, capacity = 3)
    .toDF("key", "told")

  def total(df: DataFrame): DataFrame = AsyncDataStream
    .orderedWait(df.keyed("key"), new AskedTotal, 60, SECONDS)
    .toDF("key", "total")

  def doubles(df: DataFrame): DataFrame =
    df.keyed("key").processBatches(new Doubles).toDF("key", "total")
}
