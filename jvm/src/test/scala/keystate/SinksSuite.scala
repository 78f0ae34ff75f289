package keystate

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.streaming.DataStreamWriter

/** Sinks, and the list of a ListCheckpointed function. */
class SinksSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val partitions = "spark.sql.shuffle.partitions"

  /** Runs a query that ends in a sink. */
  private def write[T](stream: Stream[T], sink: Dataset[T] => DataStreamWriter[_])(
      batches: Seq[T]*
  ): Unit = {
    val query = sink(stream.toDS).option("checkpointLocation", stream.checkpoint).start()
    try
      batches.foreach { batch =>
        stream.feed(batch)
        query.processAllAvailable()
      }
    finally query.stop()
  }

  test("the documents' BufferingSink sends each element once, over restarts and rescales") {
    BufferingSink.sent.clear()
    val stream = new Stream[(String, Int)]("buffering")
    def sink(threshold: Int)(in: Dataset[(String, Int)]) =
      in.stream.addSink(new BufferingSink(threshold))
    val elements = (1 to 60).map(n => (s"e$n", n))
    withSetting(partitions, "2") {
      write(stream, sink(10))(elements.slice(0, 15), elements.slice(15, 31))
    }
    // At most nine are kept back in each subtask.
    val sent = BufferingSink.sent.size
    assert(sent >= 31 - 18 && sent < 31 && sent % 10 == 0)
    withSetting(partitions, "3")(write(stream, sink(10))(elements.slice(31, 59)))
    // One has what all of them kept back, and so few elements that they are all sent at the end.
    val kept = 59 - BufferingSink.sent.size
    withSetting(partitions, "1")(write(stream, sink(kept + 1))(elements.slice(59, 60)))
    assert(BufferingSink.sent.asScala.toSeq.sortBy(_._2) == elements)
  }

  test("a keyed sink has keyed state and the element's context; a plain function is one too") {
    SinkOfTotals.seen.clear()
    val stream = new Stream[(String, Int)]("totals")
    def sink(in: Dataset[(String, Int)]) = in.keyBy(_._1).name("totals").addSink(new SinkOfTotals)
    write(stream, sink)(Seq(("a", 1), ("b", 2)), Seq(("a", 3)))
    write(stream, sink)(Seq(("a", 5)))
    assert(SinkOfTotals.seen.asScala.toSeq.sorted == Seq("a 1", "a 4", "a 9", "b 2"))
    val plain = new Stream[Long]("plain")
    SinkOfTotals.seen.clear()
    write(plain, (in: Dataset[Long]) => in.stream.addSink((n: Long) => SinkOfTotals.see(s"$n")))(
      Seq(7L)
    )
    assert(SinkOfTotals.seen.asScala.toSeq == Seq("7"))
  }

  test("mistakes of sinks") {
    val batch =
      intercept[KeystateException](spark.range(3).stream.addSink((_: java.lang.Long) => ()))
    assert(batch.getMessage.contains("addSink needs a stream"))
    val none = new SinkFunction[Long] {}
    val stream = new Stream[Long]("none")
    val failure =
      intercept[Exception](write(stream, (in: Dataset[Long]) => in.stream.addSink(none))(Seq(1L)))
    assert(failure.getMessage.contains("overrides neither invoke"))
  }

  test("a ListCheckpointed list is dealt out at a rescale, with elements of any plain type") {
    val stream = new Stream[Long]("listed")
    def build(in: Dataset[Long]) = in.stream.flatMap(new Listed)
    withSetting(partitions, "2")(assert(stream.run(build)(0L until 10L, 10L until 20L).isEmpty))
    // The ten of the first micro-batch are restored with those of the second.
    withSetting(partitions, "3")(assert(stream.run(build)(20L until 23L).isEmpty))
    withSetting(partitions, "1") {
      val restored = stream.run(build)(Seq(-1L)).map(Listed.numberOf)
      assert(restored.sorted == (0L until 23L))
    }
  }

  test("mistakes of lists") {
    def declared(function: FlatMapFunction[Long, String]) =
      intercept[KeystateException](spark.range(3).as[Long].stream.flatMap(function)).getMessage
    assert(
      declared(new OfBothKinds)
        .contains("OfBothKinds is a CheckpointedFunction and a ListCheckpointed")
    )
    assert(declared(new Generic[Long]).contains("Override its elementType"))
    assert(declared(new Sixes).contains("is no plain data"))
    val typed = new Generic[Long](Some(createTypeInformation[Long]))
    assert(spark.range(3).as[Long].stream.flatMap(typed).collect().isEmpty)
    val narrow = new Stream[Long]("narrow")
    narrow
      .run(_.stream.flatMap(new Generic(Some(createTypeInformation[Long]), Seq(1L << 40))))(Seq(1L))
    val failure = intercept[Exception](
      narrow.run(_.stream.flatMap(new Generic(Some(createTypeInformation[Int]))))(Seq(1L))
    )
    assert(failure.getMessage.contains("KEYSTATE_STATE_CHANGED"))
    assert(failure.getMessage.contains("is no INT: the int 1099511627776 is no INT"))
  }
}

class SinkOfTotals extends RichSinkFunction[(String, Int)] {
  @transient private var total: ValueState[Int] = _

  override def open(ctx: RuntimeContext): Unit = total = ctx.getState(ValueStateDescriptor("n", 0))

  override def invoke(value: (String, Int), context: SinkFunction.Context): Unit = {
    assert(context.currentProcessingTime() > 0 && context.currentWatermark() == Long.MinValue)
    assert(context.timestamp() == null && getRuntimeContext.getTaskName == "totals")
    total.update(total.value() + value._2)
    SinkOfTotals.see(s"${value._1} ${total.value()}")
  }
}

object SinkOfTotals {
  val seen = new ConcurrentLinkedQueue[String]

  def see(text: String): Unit = {
    seen.add(text)
    ()
  }
}

final case class Item(n: Long, names: Seq[String], by: Map[String, (Int, Option[Double])])

/** Keeps what it saw, and emits it when it sees -1. */
class Listed extends RichFlatMapFunction[Long, Item] with ListCheckpointed[Item] {
  @transient private var items: Vector[Item] = _

  override def open(ctx: RuntimeContext): Unit = if (items == null) items = Vector.empty

  override def flatMap(value: Long, out: Collector[Item]): Unit =
    if (value >= 0) items :+= Listed.of(value)
    else items.foreach(out.collect)

  override def snapshotState(checkpointId: Long, timestamp: Long): JList[Item] = {
    assert(checkpointId >= 0 && timestamp > 0)
    items.asJava
  }

  override def restoreState(state: JList[Item]): Unit = items = state.asScala.toVector
}

object Listed {
  def of(n: Long): Item =
    Item(n, Seq(s"$n", null), Map("a" -> ((n.toInt, Some(0.5))), "b" -> ((1, None))))

  /** The number that the item was made of: all of it is as it was. */
  def numberOf(item: Item): Long = {
    assert(item == of(item.n))
    item.n
  }
}

class OfBothKinds
    extends Generic[Long](Some(createTypeInformation[Long]))
    with CheckpointedFunction {
  override def initializeState(context: FunctionInitializationContext): Unit = ()
  override def snapshotState(context: FunctionSnapshotContext): Unit = ()
}

class Generic[T](of: Option[TypeInformation[T]] = None, elements: Seq[T] = Nil)
    extends FlatMapFunction[Long, String]
    with ListCheckpointed[T] {
  override def flatMap(value: Long, out: Collector[String]): Unit = ()
  override def snapshotState(checkpointId: Long, timestamp: Long): JList[T] = elements.asJava
  override def restoreState(state: JList[T]): Unit = ()
  override def elementType: Option[TypeInformation[T]] = of
}

/** Its elements are intervals of months. */
class Sixes extends FlatMapFunction[Long, String] with ListCheckpointed[java.time.Period] {
  override def flatMap(value: Long, out: Collector[String]): Unit = ()
  override def snapshotState(checkpointId: Long, timestamp: Long): JList[java.time.Period] =
    Seq(java.time.Period.ofMonths(6)).asJava
  override def restoreState(state: JList[java.time.Period]): Unit = ()
}
