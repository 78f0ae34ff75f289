package org.apache.spark.sql.keystate.jvm

import java.io.NotSerializableException

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions.Attribute

import keystate.errors.{KeystateErrors, KeystateException}
import keystate.{CheckpointListener, CheckpointedFunction, ListCheckpointed, RichFunction}
import org.apache.spark.sql.keystate.jvm.state.{JvmOperatorStateSpec, JvmStateSpec}
import org.apache.spark.sql.keystate.spec.{
  OperatorSpec, RowHandling, StateSpec, SubtaskStateSpec, TimeMode
}

/** A function and its declaration. To read the declaration, a copy of the function is opened and
  * closed on the driver.
  *
  * @param name
  *   the operator's name
  */
private[keystate] final class JvmFunctionSpec(function: RichFunction, name: Option[String]) {
  val calls: FunctionCalls = FunctionCalls(function)

  /** The function as it is sent to executors. */
  val serialized: Array[Byte] =
    try JvmFunction.serialize(function)
    catch {
      case e: NotSerializableException =>
        throw KeystateErrors.declaration(
          s"The function can't be sent to executors: ${e.getMessage} is not serializable. Mark " +
            "what open makes as @transient.",
          e
        )
    }

  /** Whether it takes part in checkpoints. */
  val checkpointed: Boolean = calls.user match {
    case _: CheckpointedFunction | _: ListCheckpointed[_] | _: CheckpointListener => true
    case _ => false
  }

  /** Whether it can write raw state. */
  private def hasRawState = calls.user.isInstanceOf[CheckpointedFunction]

  /** What is recorded of its windows, if it is a function of windows. */
  private val windows: Option[String] = function match {
    case own: WindowedFunction => Some(own.windows)
    case _ => None
  }

  private val discovered = discover()

  /** The keyed states. */
  def states: Seq[JvmStateSpec] = discovered.states
  def operatorState: JvmOperatorStateSpec = discovered.operatorState

  /** The kind of the function, if the kind does not support dead letters. */
  def withoutDeadLetters: Option[String] = calls match {
    // A list belongs to no key: overlapping calls could not undo their own changes of it.
    case _: FunctionCalls.Overlapping if checkpointed =>
      Some("an async function with operator state")
    case _ => None
  }

  /** The operator of this function. Throws if its states don't fit together or its settings are
    * wrong.
    *
    * @param broadcast
    *   the broadcast states
    * @param keys
    *   the key columns; none if the stream has no keys
    */
  def operator(
      maxParallelism: Option[Int],
      timeMode: String,
      keys: Seq[Attribute],
      broadcast: Seq[StateSpec] = Nil
  ): OperatorSpec = {
    val mode = TimeMode.all.find(_.name == timeMode).getOrElse {
      val known = TimeMode.all.map(_.name).mkString(", ")
      throw KeystateErrors.declaration(s"The time mode must be one of $known, not $timeMode.")
    }
    val keyed = states.map(_.spec)
    val lists = operatorState.lists.map(_.state.spec)
    if (keys.isEmpty) keyed.foreach(state => throw KeystateErrors.stateWithoutKey(state.name))
    val names = (keyed ++ lists ++ broadcast).map(_.name)
    names.diff(names.distinct).foreach(name => throw KeystateErrors.twoStates(name))
    if (calls.takesBatches)
      keyed.filter(_.kindName != "value").foreach { state =>
        throw KeystateErrors.declaration(
          s"State '${state.name}' is no value state: a KeyedBatchFunction has no others."
        )
      }
    OperatorSpec(
      name,
      maxParallelism,
      mode,
      calls.hasTimers,
      keyed,
      broadcast = broadcast,
      subtaskState =
        Option.when(checkpointed)(SubtaskStateSpec(lists, hasRawState && keys.nonEmpty)),
      metrics = discovered.metrics,
      rowHandling = RowHandling(lateRows = windows.nonEmpty, windows = windows)
    )
  }

  /** The states and metrics that a copy of the function gets in `open`. */
  private def discover(): Discovered = {
    val context = new DiscoveryContext(name)
    val calls = FunctionCalls(JvmFunction.deserialize(serialized).asInstanceOf[RichFunction])
    val copy = calls.function
    copy.setRuntimeContext(context)
    val operatorState =
      try {
        val found = onDriver("initializeState")(JvmOperatorStateSpec.of(calls.user, context))
        onDriver("open")(copy.open(context))
        found
      } catch {
        case e: Throwable =>
          try copy.close()
          catch { case NonFatal(suppressed) => e.addSuppressed(suppressed) }
          throw e
      }
    onDriver("close")(copy.close())
    Discovered(context.found.toSeq, operatorState, context.hasMetrics)
  }

  private def onDriver[T](method: String)(call: => T): T =
    try call
    catch {
      case e: KeystateException => throw e
      case NonFatal(e) =>
        throw KeystateErrors.declaration(s"The function's $method failed on the driver: $e", e)
    }
}

/** The states and metrics that a function got on the driver.
  *
  * @param metrics
  *   whether it has its own metrics
  */
private final case class Discovered(
    states: Seq[JvmStateSpec],
    operatorState: JvmOperatorStateSpec,
    metrics: Boolean
)
