package org.apache.spark.sql.keystate.jvm.letters

import scala.util.control.NonFatal

import org.apache.spark.TaskKilledException
import org.apache.spark.sql.catalyst.types.DataTypeUtils

import keystate.errors.{ErrorCode, KeystateException}
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.state.{FamilyEntries, Timers}

/** Calls of a function for rows and timers; what one of them did is undone if it fails. */
private[keystate] final class GuardedCalls(
    declared: DeclaredLetters,
    opening: OperatorTaskContext
) {
  val letters = new Letters(declared, DataTypeUtils.fromAttributes(opening.columns.grouping))
  private var context: OperatorTaskContext = _
  private var stored: UndoableEntries = _

  /** What the task's states and timers are read and written through. */
  var entries: Seq[FamilyEntries] = Nil
  var timers: Option[Timers] = None

  /** Begins a pass of a task. */
  def begin(context: OperatorTaskContext): Unit = if (this.context ne context) {
    this.context = context
    stored = new UndoableEntries(context.backend)
    entries = context.entriesIn(stored)
    timers = context.timersIn(stored)
    letters.begin(context)
  }

  /** Calls the function for a row or timer.
    *
    * @param failed
    *   takes an error that is the row's, when what the call did to states and timers is undone
    */
  def call(function: => Unit)(failed: Throwable => Unit): Unit = {
    stored.begin()
    val error =
      try {
        function
        null
      } catch GuardedCalls.ofRow
    if (error == null) letters.succeeded()
    else {
      stored.undo()
      failed(error)
    }
  }
}

private object GuardedCalls {

  /** Errors that are neither Keystate's nor the machine's. */
  private val ofRow: PartialFunction[Throwable, Throwable] = {
    case e: KeystateException
        if e.code == ErrorCode.StateType.name || e.code == ErrorCode.ResultType.name =>
      e
    case NonFatal(e)
        if !e.isInstanceOf[KeystateException] && !e.isInstanceOf[TaskKilledException] =>
      e
  }
}
