package org.apache.spark.sql.keystate.jvm.calls

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.apache.spark.sql.keystate.state.Timer

/** An element, or a timer, that a function has at hand beside others. It has copies of its rows, since
  * others are read meanwhile.
  *
  * @param row
  *   the element's; null for a timer
  * @param timer
  *   null for an element
  */
private[jvm] final class ElementCall(
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

/** What such functions need of the subtask that calls them. */
private[jvm] trait CallHost {

  /** Makes an element's call the one at hand, for states, timers and the context.
    *
    * @param emitted
    *   takes what it emits meanwhile
    */
  def enter(call: ElementCall, emitted: java.util.Collection[InternalRow]): Unit

  /** From now on no call is at hand. */
  def leave(): Unit

  /** The row of a result of the main output. */
  def row(result: Any): InternalRow

  /** Takes out the timer of a call, to fire it. False if it was deleted since. */
  def take(call: ElementCall): Boolean

  /** Throws what a call failed with. */
  def failed(call: ElementCall, error: Throwable): Nothing

  /** Throws if the task was killed. */
  def checkAlive(): Unit
}
