package keystate

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.testing.KeyedOneInputStreamOperatorTestHarness

/** Adds numbers up; emits what each key has after a batch. */
class Totals extends KeyedBatchFunction[String, (String, Long), (String, Long)] {
  @transient private var total: ValueState[Long] = _
  @transient private var last: ValueState[java.lang.Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    total = ctx.getState(ValueStateDescriptor("total", 0L))
    last = ctx.getState(ValueStateDescriptor[java.lang.Long]("last"))
  }

  override def processBatch(
      batch: KeyedBatch[String, (String, Long)],
      ctx: SideOutputContext,
      out: Collector[(String, Long)]
  ): Unit = {
    val totals = batch.values(total).toArray
    val lasts = batch.values(last).toArray
    batch.elements.lazyZip(batch.keyOfElement).foreach { case ((key, x), index) =>
      assert(batch.keys(index) == key)
      assert(lasts(index) == null || lasts(index) <= x, "the elements of a key are in order")
      totals(index) += x
      lasts(index) = x
    }
    batch.update(total, totals)
    batch.update(last, lasts)
    ctx.output(Totals.sizes, (batch.elements.size.toLong, batch.keys.size.toLong))
    batch.keys.zip(totals).foreach(out.collect)
    if (batch.elements.exists(_._2 < 0)) last.value()
    if (batch.elements.exists(_._2 == 99999)) batch.update(total, Seq(1L))
  }
}

object Totals {
  val sizes: OutputTag[(Long, Long)] = OutputTag[(Long, Long)]("sizes")
}

/** Wants a state that there is not for batches. */
class WantsList extends KeyedBatchFunction[String, (String, Long), String] {
  override def open(ctx: RuntimeContext): Unit = {
    val _ = ctx.getListState(ListStateDescriptor[Long]("list"))
  }
  override def processBatch(
      batch: KeyedBatch[String, (String, Long)],
      ctx: SideOutputContext,
      out: Collector[String]
  ): Unit = ()
}

/** Functions of batches: what tests/query/test_batches.py says of Python's. */
class BatchFunctionsSuite extends AnyFunSuite with SessionFixture {
  private type In = (String, Long)

  private def build(in: Dataset[In]): Dataset[In] = in.keyBy(_._1).processBatches(new Totals)

  private def harness(parallelism: Int = 1) =
    new KeyedOneInputStreamOperatorTestHarness[In, In](
      build,
      parallelism,
      sideOutputs = Seq(Totals.sizes)
    )

  override def beforeAll(): Unit = {
    super.beforeAll()
    val _ = spark
  }

  test("each key has what all of its elements add up to, over restarts with other subtasks") {
    val random = new Random(3)
    var expected = Map.empty[String, Long].withDefaultValue(0L)
    var running = harness()
    for (turn <- 1 to 3) {
      val in = (0 until 9000).map(i => (s"key ${random.nextInt(3000)}", 10000L * turn + i))
      in.foreach { case (key, x) => expected += key -> (expected(key) + x) }
      // Totals grow, so the last one of a key is the largest.
      val emitted = running.processBatch(in).groupMapReduce(_._1)(_._2)(_ max _)
      assert(emitted == in.map(_._1).distinct.map(key => key -> expected(key)).toMap)
      val sizes = running.getSideOutput(Totals.sizes)
      assert(sizes.map(_._1).sum == 9000 && sizes.forall { case (n, keys) => keys <= n })
      assert(sizes.map(_._1).max > 1000, "many elements at a time")
      val snapshot = running.snapshot()
      running.close()
      running = harness(turn + 1)
      running.initializeState(snapshot)
    }
    running.close()
  }

  test("in a query, by key columns too") {
    import spark.implicits._
    val in = Seq(("a", 1L), ("b", 5L), ("a", 2L)).toDS().coalesce(1)
    assert(build(in).collect().sorted.toSeq == Seq(("a", 3L), ("b", 5L)))
    assert(
      in.keyed("_1").processBatches(new Totals).collect().sorted.toSeq == Seq(("a", 3L), ("b", 5L))
    )
  }

  test("a state is used through its batch") {
    def error(in: In*) = {
      val running = harness()
      try intercept[KeystateException](running.processBatch(in))
      finally running.close()
    }
    assert(error(("a", -1L)).code == "KEYSTATE_NO_CURRENT_KEY")
    val wrong = error(("a", 99999L), ("b", 1L))
    assert(wrong.code == "KEYSTATE_DECLARATION")
    assert(wrong.getMessage.contains("A batch with 2 keys was given 1 values"))
    val failed = error(("a", 2L), ("a", 1L))
    assert(failed.code == "KEYSTATE_FUNCTION_FAILED")
    assert(failed.getMessage.contains("while processing a batch of 2 elements"))
  }

  test("only value states") {
    val error = intercept[KeystateException] {
      new KeyedOneInputStreamOperatorTestHarness[In, String](
        _.keyBy(_._1).processBatches(new WantsList)
      )
    }
    assert(error.code == "KEYSTATE_DECLARATION" && error.getMessage.contains("is no value state"))
  }
}
