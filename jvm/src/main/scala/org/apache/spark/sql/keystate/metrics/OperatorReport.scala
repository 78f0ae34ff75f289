package org.apache.spark.sql.keystate.metrics

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.util.CollectionAccumulator

/** A feature that rides on an operator's subtasks, in one micro-batch: its work in them, and on the
  * driver what it makes of the things that they tell. It is sent with the tasks, so what only the
  * driver needs is transient.
  *
  * @tparam S
  *   what it sees of a subtask
  * @tparam T
  *   what a subtask tells
  */
private[keystate] abstract class OperatorReport[-S, T] extends Serializable {
  private val reports = new CollectionAccumulator[(Int, T)]

  /** On the driver, once, when the tasks are made: whether they need it. */
  protected def isNeeded(): Boolean = true

  /** Whether to send it with the tasks, after this call. */
  final def isSent(context: SparkContext): Boolean = {
    val needed = isNeeded()
    if (needed) context.register(reports)
    needed
  }

  /** In a subtask, before its rows. `tell` tells the driver. */
  protected def begin(subtask: S, tell: T => Unit): SubtaskReport = () => ()

  final def begin(index: Int, subtask: S): SubtaskReport =
    begin(subtask, told => reports.add(index -> told))

  /** On the driver: what each subtask told, by its index. A subtask can tell more than once: by
    * several attempts, or by a task that runs again for another action or a lost shuffle file. Then
    * the last one counts.
    */
  protected final def told: Map[Int, T] = reports.value.asScala.toMap

  /** A check on the driver after the tasks: if it throws, the micro-batch is not committed. */
  def beforeCommit: Option[() => Unit] = None

  /** Whether a micro-batch should follow even without new input. */
  def wantsBatch: Boolean = false

  /** On the driver: its metrics in the query's progress. Spark may ask again later.
    *
    * @param progress
    *   the progress with the metrics of Spark
    */
  def metrics(progress: StateOperatorProgress): Map[String, Long] = Map.empty
}

/** An operator's report at work in one subtask. */
private[keystate] trait SubtaskReport {

  /** How many entries of states it removed when it began. */
  def removed: Long = 0

  /** Sees rows that are not late, with columns `input`, among them `keys`. */
  def seeing(
      rows: Iterator[InternalRow],
      input: Seq[Attribute],
      keys: Seq[Attribute]
  ): Iterator[InternalRow] = rows

  /** The states are as they will be committed, and can still be read. */
  def ended(): Unit

  /** The states are committed. */
  def committed(): Unit = ()
}
