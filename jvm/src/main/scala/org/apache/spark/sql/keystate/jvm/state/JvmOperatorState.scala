package org.apache.spark.sql.keystate.jvm.state

import java.util.UUID

import keystate.checkpoint.OperatorState
import keystate.{CheckpointListener, KeyedStateStore}
import org.apache.spark.sql.keystate.operator.OperatorTaskContext

/** Keeps a JVM function's instance and its subtask's operator state together.
  *
  * An instance's fields are state too. So each snapshot gets its own tag, which is stored with it.
  * The instance serves the next task only if that task begins with this very snapshot.
  *
  * With a union list it serves no other task: if only one instance restarted after a failure, it
  * would take over the elements of all subtasks while the other instances kept theirs.
  */
private[keystate] final class JvmOperatorState(
    function: AnyRef,
    declared: JvmOperatorStateSpec,
    keyed: KeyedStateStore,
    opening: OperatorTaskContext
) {
  private var tag = opening.operatorState.get.tag
  private val states = new InstanceStates(
    function,
    declared,
    opening.operatorState.get.restored(declared.unions, opening.readOperatorStates),
    keyed,
    opening.rawKeyedState
  )

  private val isOfOneTask = declared.unions.nonEmpty

  // The restored state of an instance was committed. Only listeners learn of it.
  private var snapshotOf = states.getRestoredCheckpointId.filter(_ => isOfOneTask)

  /** Gives the function the restored state of its subtask. */
  def initialize(): Unit = states.initialize()

  /** Keeps its lists, and returns what makes them so again. Fields of the instance it does not keep. */
  def keep(): () => Unit = states.keep()

  /** Whether a task begins with this instance's state. */
  def goesOn(context: OperatorTaskContext): Boolean =
    !isOfOneTask && context.operatorState.get.tag == tag

  /** Notifies the function that its last micro-batch was committed, because the next one has begun.
    */
  def begin(context: OperatorTaskContext): Unit =
    snapshotOf.filter(_ < context.batch.id).foreach { batch =>
      snapshotOf = None
      function match {
        case listener: CheckpointListener => listener.notifyCheckpointComplete(batch)
        case _ =>
      }
    }

  /** Stores the state that an instance would restore. */
  def snapshot(context: OperatorTaskContext): Unit = {
    val batch = context.batch.id
    val (state, rawKeyed) = states.snapshot(batch, context.batch.processingTime.get)
    tag = UUID.randomUUID.toString
    snapshotOf = Some(batch)
    context.operatorState.get.put(OperatorState.toJson(state), tag)
    context.rawKeyedState.foreach(_.replace(rawKeyed))
  }
}
