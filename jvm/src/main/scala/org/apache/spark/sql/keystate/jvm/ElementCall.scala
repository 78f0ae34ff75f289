package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.apache.spark.sql.keystate.state.Timer

/** One of several elements or timers that a function processes at the same time. It has copies of
  * its rows, because others are read meanwhile.
  *
  * @param row
  *   the element's row; null for a timer
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

  /** The call's results, once it has ended. */
  var results: Seq[InternalRow] = Nil

  /** The call's changes of states and timers, if they can be undone; else null. */
  var changes: Changes = _

  /** The call's error, if the other calls go on despite it; else null. */
  var error: Throwable = _
}

/** The part of a subtask that such functions use. */
private[jvm] trait CallHost {

  /** Makes an element's call the current one, for states, timers and the context.
    *
    * @param emitted
    *   takes its results meanwhile
    */
  def enter(call: ElementCall, emitted: java.util.Collection[InternalRow]): Unit

  /** Leaves no call current. */
  def leave(): Unit

  /** The row of a result of the main output. */
  def row(result: Any): InternalRow

  /** Takes out the timer of a call, to fire it. False if it was deleted since. */
  def take(call: ElementCall): Boolean

  /** Throws the error of a call, or undoes the call's effects and notes the error. */
  def failed(call: ElementCall, error: Throwable): Unit

  /** The rows that replace the results of failed calls, when all calls have ended. */
  def settle(calls: Seq[ElementCall]): Unit

  /** Throws if the task was killed. */
  def checkAlive(): Unit
}
