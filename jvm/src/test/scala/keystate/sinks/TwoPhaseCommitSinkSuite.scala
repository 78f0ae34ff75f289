package keystate.sinks

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import keystate._

class TwoPhaseCommitSinkSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  /** Starts a query, feeds it, and returns its error. */
  private def write(stream: Stream[Long], batches: Seq[Long]*): Option[Exception] = {
    val query = stream.toDS.stream
      .addSink(new MemorySink)
      .option("checkpointLocation", stream.checkpoint)
      .start()
    try {
      batches.foreach { batch =>
        stream.feed(batch)
        query.processAllAvailable()
      }
      None
    } catch { case e: Exception => Some(e) }
    finally query.stop()
  }

  test("each element is committed once, over failures, restarts and rescales") {
    MemorySink.clear()
    val stream = new Stream[Long]("once")
    withSetting(format, "2") {
      assert(write(stream, 0L until 20L, 20L until 40L).isEmpty)
      // Also those of the last micro-batch: one without rows followed.
      assert(MemorySink.committed == (0L until 40L))
      MemorySink.failures.set(4)
      assert(write(stream, 40L until 60L).nonEmpty)
      assert(MemorySink.failures.get < 4)
      MemorySink.failures.set(0)
      withSetting("spark.sql.shuffle.partitions", "3") {
        assert(write(stream, 60L until 80L).isEmpty)
      }
    }
    assert(MemorySink.committed == (0L until 80L))
    // What failed attempts prepared is ended, because an earlier owner of the checkpoint made it.
    assert(MemorySink.ended.get > 0 && MemorySink.prepared.isEmpty)
  }

  test("checkpoint format 1 is refused by name") {
    MemorySink.clear()
    val failure = withSetting(format, "1")(write(new Stream[Long]("v1"), Seq(1L)))
    assert(failure.get.getMessage.contains("A TwoPhaseCommitSink needs spark.sql.streaming"))
  }
}

/** A system with transactions in memory. */
object MemorySink {
  val prepared = new ConcurrentHashMap[String, Seq[Long]]
  val kept = new ConcurrentHashMap[String, Seq[Long]]
  val ended = new AtomicInteger

  /** How often the second subtask fails before it prepares, when the first one may have prepared. */
  val failures = new AtomicInteger

  def committed: Seq[Long] = kept.values.asScala.flatten.toSeq.sorted

  def clear(): Unit = {
    prepared.clear()
    kept.clear()
    ended.set(0)
  }
}

final class MemorySink extends TwoPhaseCommitSink[Long, String] {
  import MemorySink._

  @transient private var written: Vector[Long] = _

  @transient private var index = 0

  override def open(context: RuntimeContext): Unit = index = context.getIndexOfThisSubtask

  override def beginTransaction(transactionId: String): String = {
    written = Vector.empty
    transactionId
  }

  override def invoke(transaction: String, value: Long, context: SinkFunction.Context): Unit =
    written :+= value

  override def preCommit(transaction: String): Unit = {
    if (index == 1 && failures.getAndDecrement() > 0)
      throw new IllegalStateException("before it is prepared")
    prepared.put(transaction, written): Unit
  }

  override def commit(transaction: String): Unit = Option(prepared.remove(transaction)) match {
    case Some(rows) => kept.put(transaction, rows): Unit
    case None => assert(kept.containsKey(transaction), s"$transaction is lost")
  }

  override def abort(transaction: String): Unit = prepared.remove(transaction): Unit

  override def recoverAndAbort(transaction: String): Unit = {
    ended.incrementAndGet()
    abort(transaction)
  }

  override def preparedTransactions(prefix: String): Map[String, String] =
    prepared.keySet.asScala.filter(_.startsWith(prefix)).map(id => id -> id).toMap
}
