package org.apache.spark.sql.keystate.jvm

import scala.util.control.NonFatal

import org.apache.spark.TaskKilledException
import org.apache.spark.sql.catalyst.types.DataTypeUtils

import keystate.errors.{ErrorCode, KeystateException}
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.state.{FamilyEntries, Timers}

/** Calls of a function for rows and timers; the effects of a failed call are undone.
  *
  * @param keepOther
  *   saves the function's data other than entries, and returns a function that restores it
  */
private[keystate] final class GuardedCalls(
    declared: DeadLetterSpec,
    opening: OperatorTaskContext,
    keepOther: () => () => Unit
) {
  val deadLetters =
    new SubtaskDeadLetters(declared, DataTypeUtils.fromAttributes(opening.columns.grouping))
  private var context: OperatorTaskContext = _
  private var stored: UndoableEntries = _
  private val ofCall = new Changes

  /** The entries through which the task's states and timers are read and written. */
  var entries: Seq[FamilyEntries] = Nil
  var timers: Option[Timers] = None

  /** Begins a pass of a task. */
  def begin(context: OperatorTaskContext): Unit = if (this.context ne context) {
    this.context = context
    stored = new UndoableEntries(context.backend)
    entries = context.entriesIn(stored)
    timers = context.timersIn(stored)
    deadLetters.begin(context)
  }

  /** Calls the function for some rows or for a timer.
    *
    * @param count
    *   how many rows and timers
    * @param failed
    *   takes an error that they caused, after the call's changes of states and timers are undone
    */
  def call(count: Int)(function: => Unit)(failed: Throwable => Unit): Unit = {
    ofCall.clear()
    within(ofCall, count)(function)(failed)
  }

  /** Calls a part of the processing of the current row or timer. If the part fails, only its
    * effects are undone.
    */
  def attempt(function: => Unit)(failed: Throwable => Unit): Unit = {
    val outer = stored.changes
    val own = new Changes
    within(own, 1)(function)(failed)
    stored.changes = outer
    if (outer != null) outer ++= own
  }

  private def within(changes: Changes, count: Int)(
      function: => Unit
  )(failed: Throwable => Unit): Unit = {
    val restore = keepOther()
    stored.changes = changes
    val error =
      try {
        function
        null
      } catch { case e: Throwable if GuardedCalls.isOfRow(e) => e }
      finally stored.changes = null
    if (error == null) deadLetters.succeeded(count)
    else {
      stored.undo(changes)
      restore()
      failed(error)
    }
  }

  /** Assigns later changes to one of several overlapping calls; null: to none. */
  def moveTo(changes: Changes): Unit = stored.changes = changes

  /** Undoes what such a call did. */
  def undo(changes: Changes): Unit = stored.undo(changes)
}

private[jvm] object GuardedCalls {

  /** Whether an error is neither Keystate's nor the machine's. */
  def isOfRow(error: Throwable): Boolean = error match {
    case e: KeystateException =>
      e.code == ErrorCode.StateType.name || e.code == ErrorCode.ResultType.name
    case NonFatal(e) => !e.isInstanceOf[TaskKilledException]
    case _ => false
  }
}
