package org.apache.spark.sql.keystate.jvm

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

  /** This call with its element as it came.
    *
    * @param toInput
    *   makes an element of its row
    */
  def anew(toInput: InternalRow => Any): ElementCall =
    new ElementCall(key, group, input, row, toInput(row), timer)

  /** What it emitted, once it has ended. */
  var results: Seq[InternalRow] = Nil

  /** What it did to states and timers, if that can be undone; else null. */
  var changes: Changes = _

  /** What it failed with, if the others go on all the same; else null. */
  var error: Throwable = _
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

  /** Throws what a call failed with, or undoes what it did and notes the error. */
  def failed(call: ElementCall, error: Throwable): Unit

  /** What is emitted in the place of those of these calls that failed, when all have ended. */
  def settle(calls: Seq[ElementCall]): Unit

  /** Throws if the task was killed. */
  def checkAlive(): Unit
}
