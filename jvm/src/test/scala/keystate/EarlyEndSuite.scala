package keystate

import scala.collection.mutable.ArrayBuffer

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.errors.KeystateException

/** Emits three times how many elements its subtask saw, which is operator state. */
class Thrice extends KeyedProcessFunction[Long, Long, Long] with CheckpointedFunction {
  @transient private var seen: ListState[Long] = _
  @transient private var n = 0L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    seen = context.getOperatorStateStore.getListState(ListStateDescriptor[Long]("seen"))
    n = seen.get().sum
  }

  override def processElement(value: Long, ctx: Context, out: Collector[Long]): Unit = {
    n += 1
    (0 until 3).foreach(_ => out.collect(n))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = seen.update(Seq(n))
}

/** Emits what a thread of its own gets to hear. */
class OwnThread extends KeyedProcessFunction[Long, Long, String] {
  @transient private var count: ValueState[Long] = _
  @transient private var map: MapState[Long, Long] = _

  override def open(context: RuntimeContext): Unit = {
    count = context.getState(ValueStateDescriptor("count", 0L))
    map = context.getMapState(MapStateDescriptor[Long, Long]("map"))
  }

  override def processElement(value: Long, ctx: Context, out: Collector[String]): Unit = {
    count.update(1)
    map.put(1, 1)
    val entries = map.entries().iterator
    Seq[() => Any](
      () => count.value(),
      () => count.update(99),
      () => map.put(2, 2),
      () => entries.next(),
      () => out.collect("from a thread")
    ).foreach { use =>
      var heard = "nothing"
      val thread = new Thread(() =>
        try {
          use()
          ()
        } catch { case e: KeystateException => heard = e.code }
      )
      thread.start()
      thread.join()
      out.collect(heard)
    }
    out.collect(s"${count.value()} ${entries.map(_.getKey).mkString}")
  }
}

/** Emits what it hears where no timer fires, and asks for a key when its calls are over. */
class AsksLate extends KeyedProcessFunction[Long, Long, String] {
  @transient private var kept: Context = _

  override def processElement(value: Long, ctx: Context, out: Collector[String]): Unit = {
    kept = ctx
    out.collect(AsksLate.heard(ctx.asInstanceOf[OnTimerContext].timeDomain()))
  }

  override def close(): Unit =
    if (kept != null) AsksLate.atClose = AsksLate.heard(kept.getCurrentKey)
}

object AsksLate {
  @volatile var atClose = ""

  def heard(use: => Any): String =
    try s"nothing, but $use"
    catch { case e: KeystateException => e.code }
}

class EarlyEndSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  test("a result that is read in part leaves nothing for who reads it next") {
    def build(in: Dataset[Long]): Dataset[Long] = in.keyBy(identity).process(new Thrice)
    val stream = new Stream[Long]("early")
    val emitted = ArrayBuffer.empty[Seq[Long]]
    withSetting("spark.sql.shuffle.partitions", "1") {
      val query = build(stream.toDS).writeStream
        .option("checkpointLocation", stream.checkpoint)
        .foreachBatch { (batch: Dataset[Long], _: Long) =>
          assert(!batch.isEmpty)
          assert(batch.limit(1).collect().length == 1)
          emitted += batch.collect().toSeq
          ()
        }
        .start()
      try
        Seq(Seq(1L, 2L), Seq(3L, 4L)).foreach { batch =>
          stream.feed(batch)
          query.processAllAvailable()
        }
      finally query.stop()
    }
    assert(emitted == Seq(Seq(1, 1, 1, 2, 2, 2), Seq(3, 3, 3, 4, 4, 4)))
  }

  test("a thread of the function's own can't use its states or emit") {
    def build(in: Dataset[Long]): Dataset[String] = in.keyBy(identity).process(new OwnThread)
    val heard = build(Seq(1L).toDS()).collect().toSeq
    assert(heard == Seq.fill(4)("KEYSTATE_NO_CURRENT_KEY") ++ Seq("KEYSTATE_NOT_IN_CALL", "1 1"))
  }

  test("a key outside of a call, and a domain where no timer fires, have Python's codes") {
    def build(in: Dataset[Long]): Dataset[String] = in.keyBy(identity).process(new AsksLate)
    assert(build(Seq(1L).toDS()).collect().toSeq == Seq("KEYSTATE_NOT_IN_CALL"))
    assert(AsksLate.atClose == "KEYSTATE_NO_CURRENT_KEY")
  }
}
