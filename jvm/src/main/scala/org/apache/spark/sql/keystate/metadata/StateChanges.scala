package org.apache.spark.sql.keystate.metadata

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

import keystate.backend.StateFamily
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.spec.{OperatorSpec, StateSpec, SystemColumnFamilies}

/** How the states that an operator declares differ, by their names, from those that its checkpoint
  * has.
  */
private[keystate] final class StateChanges(
    recorded: Seq[StateFamily],
    spec: OperatorSpec,
    info: StatefulOperatorStateInfo
) {
  private val stored = recorded.filter(StateSpec.isOne).map(_.name)
  private val declared = (spec.states ++ spec.broadcast).map(_.name)

  /** The states that the function no longer declares. */
  val undeclared: Seq[String] = RecordedStates.removed(recorded, spec).map(_.name)
  private val added = declared.filterNot(stored.contains)

  val operator: String = StateChanges.describe(info, spec.name)

  /** Throws if all states vanished and others came: most often that is another operator's state.
    * Windows may come to hold something else: tasks see to it that none is open then.
    */
  def check(allowed: Boolean): Unit = {
    val ofWindows = spec.windows.nonEmpty &&
      recorded.exists(_.name == SystemColumnFamilies.WindowTimersName)
    if (!allowed && !ofWindows && stored.nonEmpty && undeclared == stored && added.nonEmpty)
      throw KeystateErrors.statesReplaced(operator, stored, declared)
  }

  /** Notes how many undeclared states the operator keeps, for its progress. */
  def note(purges: Boolean): Unit = UndeclaredStates.put(info, if (purges) 0 else undeclared.size)

  /** A warning if some states vanished and others came. */
  def renamed: Option[String] = Option.when(undeclared.nonEmpty && added.nonEmpty) {
    def listed(states: Seq[String]) = states.map(s => s"'$s'").mkString(", ")
    s"Of $operator the checkpoint has state ${listed(undeclared)}, which is no longer declared, " +
      s"and ${listed(added)} is new and begins empty. If it was renamed, make a changed copy " +
      "with rename of keystate.admin.edit"
  }
}

private[keystate] object StateChanges {

  /** Names an operator in messages. */
  def describe(info: StatefulOperatorStateInfo, name: Option[String]): String =
    s"operator ${info.operatorId}${name.fold("")(n => s" '$n'")} of the checkpoint " +
      new Path(info.checkpointLocation).getParent
}
