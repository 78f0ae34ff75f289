package org.apache.spark.sql.keystate.jvm.async

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.apache.spark.sql.keystate.state.Timer

/** A call of a function for one element or timer. It has copies of its rows, since others are read
  * while it waits.
  *
  * @param row
  *   the element's; null for a timer
  * @param timer
  *   null for an element
  */
private[jvm] final class AsyncCall(
    val key: UnsafeRow,
    val group: Int,
    val input: Int,
    val row: InternalRow,
    val value: Any,
    val timer: Timer
) {

  /** What it emitted, once it has ended. */
  var results: Seq[InternalRow] = Nil
}

/** What overlapping calls need of the subtask that makes them. */
private[jvm] trait AsyncHost {

  /** Makes a call the one at hand, for states, timers and the context.
    *
    * @param emitted
    *   takes what it emits meanwhile
    */
  def enter(call: AsyncCall, emitted: java.util.Collection[InternalRow]): Unit

  /** From now on no call is at hand. */
  def leave(): Unit

  /** The row of a result of the main output. */
  def row(result: Any): InternalRow

  /** Takes out the timer of a call, to fire it. False if it was deleted since. */
  def take(call: AsyncCall): Boolean

  /** Throws what a call failed with. */
  def failed(call: AsyncCall, error: Throwable): Nothing

  /** Throws if the task was killed. */
  def checkAlive(): Unit
}
