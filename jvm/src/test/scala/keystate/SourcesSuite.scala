package keystate

import java.nio.file.{Files, Path}
import java.util.concurrent.{ConcurrentLinkedQueue, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

class SourcesSuite extends AnyFunSuite with SessionFixture {

  /** Runs queries over a source, one after the other on one checkpoint. */
  private final class Queries[T](name: String) {
    val checkpoint: Path = folder.resolve(name)
    var batches: Map[Long, Seq[T]] = Map.empty

    def start(data: Dataset[T], trigger: Trigger = Trigger.AvailableNow()): StreamingQuery = {
      batches = Map.empty
      data.writeStream
        .foreachBatch { (batch: Dataset[T], id: Long) =>
          batches += id -> batch.collect().toSeq
        }
        .option("checkpointLocation", checkpoint.toString)
        .trigger(trigger)
        .start()
    }

    def toEnd(data: Dataset[T]): Seq[T] = {
      start(data).awaitTermination()
      all
    }

    def all: Seq[T] = batches.toSeq.sortBy(_._1).flatMap(_._2)

    def files: Seq[String] = {
      val listed = Files.list(checkpoint.resolve("sources/0"))
      try listed.iterator.asScala.map(_.getFileName.toString).filter(_.endsWith(".source")).toSeq
      finally listed.close()
    }
  }

  private def waitUntil(what: String)(condition: => Boolean): Unit = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60)
    while (!condition) {
      assert(System.nanoTime() < deadline, s"waited in vain until $what")
      Thread.sleep(5)
    }
  }

  test("the documents' CounterSource counts on, whatever ends its query") {
    val queries = new Queries[Long]("counter")
    var seen = Seq.empty[Long]
    for (_ <- 1 to 3) {
      val counter =
        spark.addSource(new CounterSource, maxRowsPerBatch = 1000, availableNowRows = 3000)
      seen ++= queries.toEnd(counter)
    }
    assert(seen == (0L until seen.size.toLong) && seen.size >= 9000)
    assert(queries.files.size == 2, "those of the batches before are gone")
    assert(queries.batches.values.forall(_.size == 1000))
  }

  test("a bounded source ends, and its batches are full") {
    val queries = new Queries[Long]("bounded")
    def numbers(until: Long) = spark.addSource(new Numbers(until), maxRowsPerBatch = 100)
    assert(queries.toEnd(numbers(250)) == (0L until 250L))
    assert(queries.batches.values.map(_.size).toSeq.sorted == Seq(50, 100, 100))
    assert(queries.toEnd(numbers(260)) == (250L until 260L))
    assert(queries.toEnd(numbers(260)) == Nil)
  }

  /** Runs a query whose sink fails on batch 1, and returns the rows of that. */
  private def failAtSink[T](data: Dataset[T], checkpoint: Path): Seq[T] = {
    var pending = Seq.empty[T]
    val failing = data.writeStream
      .foreachBatch { (batch: Dataset[T], id: Long) =>
        if (id == 1) {
          pending = batch.collect().toSeq
          throw new IllegalStateException("sink failed")
        }
      }
      .option("checkpointLocation", checkpoint.toString)
      .trigger(Trigger.AvailableNow())
      .start()
    assert(intercept[Exception](failing.awaitTermination()).getMessage.contains("sink failed"))
    pending
  }

  test("a pending batch has the same rows") {
    val queries = new Queries[Long]("pending")
    val numbers = spark.addSource(new Numbers(50), maxRowsPerBatch = 20)
    val first = failAtSink(numbers, queries.checkpoint)
    assert(first == (20L until 40L))
    assert(queries.toEnd(numbers) == (20L until 50L) && queries.batches(1) == first)
  }

  /** Lets a release leave a batch of the numbers 20 to 39, and another one go on. */
  private def releases[Old: TypeInformation, New: TypeInformation](
      name: String,
      before: Long => Old,
      after: Long => New
  ): Seq[New] = {
    val queries = new Queries[New](name)
    val old = spark.addSource(new Counted(50, before), maxRowsPerBatch = 20)
    assert(failAtSink(old, queries.checkpoint) == (20L until 40L).map(before))
    queries.toEnd(spark.addSource(new Counted(50, after), maxRowsPerBatch = 20))
  }

  test("a pending batch is read by the names of columns, if a new release has them otherwise") {
    def old(n: Long) = Sample(n, 1000 + n, Some(s"s$n"), (n, Seq(Some(n.toInt))))
    def swapped(n: Long) = SampleSwapped((n, Seq(Some(n.toInt))), Some(s"s$n"), 1000 + n, n)
    assert(releases("swapped", old, swapped) == (20L until 50L).map(swapped))
    def fewer(n: Long) = SampleAt(1000 + n)
    assert(releases("fewer", old, fewer) == (20L until 50L).map(fewer))
    def required(n: Long) = SampleNullable(1000 + n)
    assert(releases("nullable", fewer, required) == (20L until 50L).map(required))
  }

  test("a pending batch without a column, or with another type, is not read") {
    def old(n: Long) = SampleAt(1000 + n)
    def refused[New: TypeInformation](name: String, after: Long => New): String =
      intercept[Exception](releases(name, old, after)).getMessage
    val other = refused("otherType", n => SampleTime(new java.sql.Timestamp(n)))
    assert(other.contains("KEYSTATE_SOURCE_COLUMNS"), other)
    assert(other.contains("(at BIGINT), but the source 'Counted' now has (at TIMESTAMP)"), other)
    assert("""/otherType/sources/0/\d+_[0-9a-f-]+\.source""".r.findFirstIn(other).nonEmpty, other)
    val added = refused("added", n => (n, n))
    assert(added.contains("now has (_1 BIGINT,_2 BIGINT)"), added)
  }

  test("blocks stay together, list state is dealt out anew, and a union list is everybody's") {
    val queries = new Queries[(Int, Long)]("shards")
    var seen = Seq.empty[(Int, Long)]
    def run(parallelism: Int, until: Long) = {
      val shards = spark.addSource(new Shards(until), parallelism, maxRowsPerBatch = 40)
      seen ++= queries.toEnd(shards)
      // Pairs are collected in a block.
      queries.batches.values.foreach { batch =>
        batch.groupBy(_._1).values.foreach(rows => assert(rows.size % 2 == 0, rows))
      }
    }
    run(parallelism = 2, until = 40)
    run(parallelism = 3, until = 80)
    run(parallelism = 1, until = 120)
    val expected = for {
      shard <- 0 until Shards.Number
      n <- 0L until 120L
    } yield (shard, n)
    assert(seen.sorted == expected)
    assert(Shards.restoredBy.asScala.toSeq == Seq.fill(3)(2) ++ Seq(3))
  }

  test("a source is cancelled when its query stops, told of batches, and ended by idleness") {
    val queries = new Queries[Long]("endless")
    val endless = spark.addSource(new Endless(Long.MaxValue), 2, maxRowsPerBatch = 10)
    Endless.calls.clear()
    val query = queries.start(endless, Trigger.ProcessingTime(0))
    waitUntil("there are batches")(queries.batches.size > 3)
    query.stop()
    // Nothing is in a block, so a batch has no row too many.
    assert(queries.batches.values.forall(_.size <= 10), queries.batches)
    val calls = Endless.calls.asScala.toSeq
    assert(calls.count(_ == "close 0") == 1 && calls.count(_ == "close 1") == 1)
    assert(calls.count(_ == "complete 2 of 0") == 1)
    val idle = spark.addSource(new Endless(7))
    assert(new Queries[Long]("idle").toEnd(idle) == (0L until 7L))
  }

  test("a source beside another is told once of each batch that has its rows, and of no other") {
    val queries = new Queries[Long]("beside")
    Beside.calls.clear()
    Beside.mayCollect = false
    val both = spark
      .addSource(new Endless(Long.MaxValue), maxRowsPerBatch = 10)
      .union(spark.addSource(new Beside))
    val query = queries.start(both, Trigger.ProcessingTime(0))
    waitUntil("there are batches of the other")(queries.batches.size > 3)
    Beside.mayCollect = true
    waitUntil("it is told")(Beside.calls.contains("complete 1"))
    val before = queries.batches.size
    waitUntil("there are more batches of the other")(queries.batches.size > before + 3)
    query.stop()
    assert(Beside.calls.asScala.toSeq == Seq("snapshot 1", "complete 1"))
  }

  test("errors of a source") {
    def failure[T](name: String, data: Dataset[T]): String =
      intercept[Exception](new Queries[T](name).toEnd(data)).getMessage
    val broken = failure("broken", spark.addSource(new Numbers(100, failAt = 60)))
    assert(
      broken.contains("[KEYSTATE_FUNCTION_FAILED] The function of source Numbers (1/1) failed")
    )
    assert(broken.contains("no number 60"))
    assert(failure("nulls", spark.addSource(new Nulls)).contains("KEYSTATE_RESULT_TYPE"))
    assert(failure("keyed", spark.addSource(new Keyed)).contains("a source has no keyed state"))
    def declared(make: => Any) = intercept[KeystateException](make).getMessage
    assert(declared(spark.addSource(new Numbers(1), 2)).contains("not a ParallelSourceFunction"))
    assert(declared(spark.addSource(new CounterSource, 0)).contains("at least 1"))
    assert(declared(spark.addSource(new CounterSource, 3, 2)).contains("for every instance"))
    assert(
      declared(spark.addSource(new CounterSource, maxBatchDuration = Time.seconds(0)))
        .contains("maxBatchDuration must be positive")
    )
    assert(
      declared(spark.addSource(new CounterSource, availableNowRows = 0))
        .contains("availableNowRows")
    )
  }
}

final case class Sample(n: Long, at: Long, text: Option[String], more: (Long, Seq[Option[Int]]))
final case class SampleSwapped(
    more: (Long, Seq[Option[Int]]),
    text: Option[String],
    at: Long,
    n: Long
)
final case class SampleAt(at: Long)
final case class SampleNullable(at: java.lang.Long)
final case class SampleTime(at: java.sql.Timestamp)

/** Counts to a number. */
class Numbers(until: Long, failAt: Long = -1) extends Counted[Long](until, identity, failAt)

/** Makes a row of each number up to one. */
class Counted[T](until: Long, row: Long => T, failAt: Long = -1)
    extends SourceFunction[T]
    with CheckpointedFunction {
  @transient private var offsets: ListState[Long] = _
  @volatile private var running = true
  private var next = 0L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    offsets = context.getOperatorStateStore.getListState(ListStateDescriptor[Long]("offset"))
    offsets.get().foreach(next = _)
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = offsets.update(Seq(next))

  override def run(ctx: SourceFunction.SourceContext[T]): Unit =
    while (running && next < until)
      ctx.getCheckpointLock.synchronized {
        if (next == failAt) throw new IllegalStateException(s"no number $next")
        ctx.collect(row(next))
        next += 1
      }

  override def cancel(): Unit = running = false
}

/** Collects pairs of some shards, whose offsets are dealt out. */
class Shards(until: Long)
    extends RichParallelSourceFunction[(Int, Long)]
    with CheckpointedFunction {
  @transient private var state: ListState[(Int, Long)] = _
  @transient private var instances: ListState[Int] = _
  @volatile private var running = true
  private var offsets = Map.empty[Int, Long]
  private var restored = false

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val store = context.getOperatorStateStore
    state = store.getListState(ListStateDescriptor[(Int, Long)]("shards"))
    instances = store.getUnionListState(ListStateDescriptor[Int]("instances"))
    restored = context.isRestored
    offsets = state.get().toMap
    if (restored) {
      val _ = Shards.restoredBy.add(instances.get().size)
    }
  }

  override def open(ctx: RuntimeContext): Unit = if (!restored)
    offsets = (0 until Shards.Number)
      .filter(_ % ctx.getNumberOfParallelSubtasks == ctx.getIndexOfThisSubtask)
      .map(_ -> 0L)
      .toMap

  override def run(ctx: SourceFunction.SourceContext[(Int, Long)]): Unit =
    while (running && offsets.values.exists(_ < until))
      offsets.keys.filter(offsets(_) < until).foreach { shard =>
        // As Java does it.
        (ctx.getCheckpointLock: AnyRef).synchronized {
          val at = offsets(shard)
          ctx.collect((shard, at))
          Thread.`yield`()
          offsets += shard -> (at + 2)
          ctx.collect((shard, at + 1))
        }
      }

  override def cancel(): Unit = running = false

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    state.update(offsets)
    instances.update(Seq(getRuntimeContext.getIndexOfThisSubtask))
  }
}

object Shards {
  final val Number = 5
  val restoredBy = new ConcurrentLinkedQueue[Int]
}

/** Collects numbers without the lock, and is idle after some. */
class Endless(idleAfter: Long) extends RichParallelSourceFunction[Long] with CheckpointListener {
  @volatile private var running = true

  private def tell(what: String): Unit = {
    val _ = Endless.calls.add(what)
  }

  private def index = getRuntimeContext.getIndexOfThisSubtask

  override def run(ctx: SourceFunction.SourceContext[Long]): Unit = {
    var n = 0L
    while (running)
      if (n == idleAfter) {
        ctx.markAsTemporarilyIdle()
        Thread.sleep(5)
      } else {
        ctx.collect(n)
        n += 1
      }
  }

  override def cancel(): Unit = running = false
  override def close(): Unit = tell(s"close $index")
  override def notifyCheckpointComplete(id: Long): Unit = tell(s"complete $id of $index")
}

object Endless {
  val calls = new ConcurrentLinkedQueue[String]
}

/** Collects one number, once it may. */
class Beside extends SourceFunction[Long] with ListCheckpointed[Long] with CheckpointListener {
  @volatile private var running = true
  private var collected = false

  private def tell(what: String): Unit = {
    val _ = Beside.calls.add(what)
  }

  override def run(ctx: SourceFunction.SourceContext[Long]): Unit = while (running) {
    if (Beside.mayCollect && !collected) {
      ctx.collect(-1)
      collected = true
    }
    Thread.sleep(5)
  }

  override def cancel(): Unit = running = false

  override def snapshotState(id: Long, time: Long): java.util.List[Long] = {
    tell(s"snapshot $id")
    java.util.Collections.emptyList()
  }

  override def restoreState(state: java.util.List[Long]): Unit = ()
  override def notifyCheckpointComplete(id: Long): Unit = tell(s"complete $id")
}

object Beside {
  val calls = new ConcurrentLinkedQueue[String]
  @volatile var mayCollect = false
}

class Nulls extends SourceFunction[(Long, Long)] {
  override def run(ctx: SourceFunction.SourceContext[(Long, Long)]): Unit = ctx.collect(null)
  override def cancel(): Unit = ()
}

class Keyed extends RichSourceFunction[Long] {
  override def open(ctx: RuntimeContext): Unit = {
    val _ = ctx.getState(ValueStateDescriptor("n", 0L))
  }
  override def run(ctx: SourceFunction.SourceContext[Long]): Unit = ()
  override def cancel(): Unit = ()
}
