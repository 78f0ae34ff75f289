package org.apache.spark.sql.keystate.source

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow

import keystate.checkpoint.{OperatorState, RestoredOperatorState}
import keystate.errors.{KeystateErrors, KeystateException}
import keystate.{CheckpointListener, RichFunction, SourceFunction}
import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.jvm.Outputs
import org.apache.spark.sql.keystate.jvm.state.{InstanceStates, JvmOperatorStateSpec}

/** An instance's part of a batch.
  *
  * @param rows
  *   the number of rows
  * @param data
  *   the rows as an Arrow stream
  * @param states
  *   the states after them
  */
private[source] final case class InstanceCut(rows: Int, data: Array[Byte], states: OperatorState)

/** One of the parallel instances of a source: the user's function in a thread, and the rows that it
  * has collected. Its methods are called by the query's thread, unless they say otherwise.
  *
  * @param name
  *   with its number
  * @param share
  *   of the rows that a batch may have
  */
private[source] final class SourceInstance(
    name: String,
    function: SourceFunction[Any],
    output: Outputs,
    declared: JvmOperatorStateSpec,
    restored: Option[RestoredOperatorState],
    context: SourceRuntimeContext,
    share: Int
) extends SourceFunction.SourceContext[Any]
    with Logging {
  private val writer = output.writer(Some(name))
  private val format = new ArrowStreams("UTC", largeVarTypes = false)
  private val states = new InstanceStates(function, declared, restored, context, None)
  private var collected = ArrayBuffer.empty[InternalRow] // under the lock
  @volatile private var number = 0 // of these rows
  @volatile private var cancelled = false
  @volatile private var idle = false
  @volatile private var ended = false
  @volatile private var error: Throwable = _
  private val lock = new InstanceLock(name, () => cancelled || number < share)
  private val thread = new Thread(() => run(), name)

  private val rich = Option(function).collect { case own: RichFunction => own }
  rich.foreach(_.setRuntimeContext(context))

  /** Gives the function its state and opens it. */
  def open(): Unit = {
    guard(states.initialize())
    guard(rich.foreach(_.open(context)))
  }

  def start(): Unit = {
    thread.setDaemon(true)
    thread.start()
  }

  /** The number of rows for the next batch. */
  def rows: Int = number

  /** Whether no more rows will come for the next batch. */
  def isFull: Boolean = ended || number >= share

  /** Whether the function has returned or declared itself idle. */
  def isWaiting: Boolean = ended || idle

  /** Throws the function's error, if there is one. */
  def check(): Unit = if (error != null) fail(error)

  /** Takes the rows, and the states after them. */
  def cut(batch: Long, now: Long): InstanceCut = {
    val (taken, after) = guard(lock.inside {
      val rows = collected
      val (state, _) = states.snapshot(batch, now)
      collected = ArrayBuffer.empty
      number = 0
      (rows, state)
    })
    InstanceCut(taken.length, encode(taken), after)
  }

  private def encode(rows: ArrayBuffer[InternalRow]): Array[Byte] = {
    val schema = output.schema
    format.write(schema) { writers =>
      rows.foreach { row =>
        writers.indices.foreach(i => writers(i).write(row, i))
      }
      rows.length
    }
  }

  /** Notifies the function that a batch is committed. */
  def committed(batch: Long): Unit = function match {
    case listener: CheckpointListener =>
      guard(lock.inside(listener.notifyCheckpointComplete(batch)))
    case _ =>
  }

  /** Makes the function return. Elements that it collects from now on are dropped. */
  def cancel(): Unit = {
    cancelled = true
    lock.open()
    try function.cancel()
    catch { case NonFatal(e) => logWarning(s"cancel() of source $name failed", e) }
  }

  /** Waits until the function has returned, and closes it then.
    *
    * @param deadline
    *   when it is interrupted, by the clock of `System.nanoTime`
    */
  def close(deadline: Long): Unit = {
    def await(nanos: Long): Unit =
      if (thread.isAlive) thread.join(math.max(1L, nanos / 1000000))
    await(deadline - System.nanoTime())
    if (thread.isAlive) {
      thread.interrupt()
      await(SourceInstance.InterruptedNanos)
    }
    if (thread.isAlive) logWarning(s"run() of source $name does not return after cancel()")
    else
      try rich.foreach(_.close())
      catch { case NonFatal(e) => logWarning(s"close() of source $name failed", e) }
  }

  // The function's threads call this.

  override def collect(element: Any): Unit = lock.synchronized {
    if (!cancelled) {
      collected += writer.main(element)
      number += 1
      if (number == share) lock.changed()
    }
    idle = false
  }

  override def getCheckpointLock: SourceFunction.CheckpointLock = lock

  override def markAsTemporarilyIdle(): Unit = idle = true

  private def run(): Unit = {
    try function.run(this)
    catch { case e: Throwable => if (!cancelled) error = e }
    ended = true
  }

  private def guard[T](call: => T): T =
    try call
    catch { case NonFatal(e) => fail(e) }

  private def fail(error: Throwable): Nothing = error match {
    case known: KeystateException => throw known
    case other => throw KeystateErrors.sourceFailed(name, other)
  }
}

private object SourceInstance {

  /** How long an interrupted function has to return. */
  final val InterruptedNanos = 1000000000L
}
