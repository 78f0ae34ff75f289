package org.apache.spark.sql.keystate.jvm.state

import java.util.UUID

import keystate.checkpoint.OperatorState
import keystate.{CheckpointListener, KeyedStateStore}
import org.apache.spark.sql.keystate.operator.OperatorTaskContext

/** Keeps a JVM function's instance and its subtask's operator state together.
  *
  * What an instance holds in its fields is state too. So each snapshot gets its own tag, which is
  * stored with it. The instance serves the next task only if that task begins with this very
  * snapshot.
  *
  * With a union list it serves no other task: one that began anew alone, after a failure, would take
  * over the elements of all subtasks while the other instances went on with theirs.
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

  // What an instance is restored with was committed. Nobody else is told of it.
  private var snapshotOf = states.getRestoredCheckpointId.filter(_ => isOfOneTask)

  /** Gives the function the restored state of its subtask. */
  def initialize(): Unit = states.initialize()

  /** Keeps its lists, and returns what makes them so again. Fields of the instance it does not keep. */
  def keep(): () => Unit = states.keep()

  /** Whether a task begins with the state that this instance has. */
  def goesOn(context: OperatorTaskContext): Boolean =
    !isOfOneTask && context.operatorState.get.tag == tag

  /** Tells the function that its last micro-batch was committed: the next one has begun. */
  def begin(context: OperatorTaskContext): Unit =
    snapshotOf.filter(_ < context.batch.id).foreach { batch =>
      snapshotOf = None
      function match {
        case listener: CheckpointListener => listener.notifyCheckpointComplete(batch)
        case _ =>
      }
    }

  /** Stores what an instance would be restored with. */
  def snapshot(context: OperatorTaskContext): Unit = {
    val batch = context.batch.id
    val (state, rawKeyed) = states.snapshot(batch, context.batch.processingTime.get)
    tag = UUID.randomUUID.toString
    snapshotOf = Some(batch)
    context.operatorState.get.put(OperatorState.toJson(state), tag)
    context.rawKeyedState.foreach(_.replace(rawKeyed))
  }
}
