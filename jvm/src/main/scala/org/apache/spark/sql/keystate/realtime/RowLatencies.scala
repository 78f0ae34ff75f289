package org.apache.spark.sql.keystate.realtime

import java.util.Arrays
import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.collection.mutable

import org.apache.spark.sql.keystate.metrics.{LatencyHistogram, MetricValues}

/** How long the rows of a task waited, and how long the function had them. For the task's thread. */
private[keystate] final class RowLatencies {
  import RowLatencies._

  private val queueing = new LatencyHistogram
  private val worker = new LatencyHistogram
  private val total = new LatencyHistogram

  private var arrivals = new Array[Long](1 << 8) // of the message's rows so far
  private var count = 0
  private val unanswered = mutable.Queue.empty[Message]

  /** Says that a row was read that came at a time of `System.nanoTime`. */
  def read(arrival: Long): Unit = {
    if (count == arrivals.length) arrivals = Arrays.copyOf(arrivals, 2 * count)
    arrivals(count) = arrival
    count += 1
  }

  /** Says that a message was made of the rows that were read since the last one. */
  def sent(now: Long): Unit = {
    val rows = Arrays.copyOf(arrivals, count)
    rows.foreach(arrival => queueing.add(NANOSECONDS.toMicros(now - arrival)))
    unanswered += Message(now, rows)
    count = 0
  }

  /** Says that the first message that had no answer yet was answered. */
  def answered(now: Long): Unit = {
    val message = unanswered.dequeue()
    val inWorker = NANOSECONDS.toMicros(now - message.sent)
    message.arrivals.foreach { arrival =>
      worker.add(inWorker)
      total.add(NANOSECONDS.toMicros(now - arrival))
    }
  }

  /** Says that the rows that were read since the last call were processed in this JVM.
    *
    * @param began
    *   when that began, at a time of `System.nanoTime`; until then they waited
    */
  def processed(began: Long, ended: Long): Unit = {
    (0 until count).foreach { i =>
      queueing.add(NANOSECONDS.toMicros(began - arrivals(i)))
      worker.add(NANOSECONDS.toMicros(ended - began))
      total.add(NANOSECONDS.toMicros(ended - arrivals(i)))
    }
    count = 0
  }

  def values: MetricValues = MetricValues(latencies =
    Map(QueueingMetric -> queueing, WorkerMetric -> worker, TotalMetric -> total)
  )
}

private[keystate] object RowLatencies {
  private final case class Message(sent: Long, arrivals: Array[Long])

  private final val QueueingMetric = "keystateQueueingUs"
  private final val WorkerMetric = "keystateWorkerUs"
  private final val TotalMetric = "keystateLatencyUs"
}
