package org.apache.spark.sql.keystate.jvm

import java.util.UUID

import scala.collection.mutable

import keystate.{
  CheckpointListener,
  CheckpointedFunction,
  FunctionInitializationContext,
  FunctionSnapshotContext,
  KeyedStateStore,
  ListState,
  ListStateDescriptor
}
import keystate.checkpoint.{OperatorList, OperatorState}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.spec.StateKind

/** A list of operator state that a JVM function declared.
  *
  * @param union
  *   whether each subtask is restored with the elements of all subtasks
  */
private[keystate] final case class DeclaredList(state: DeclaredState, union: Boolean)

/** Gives a JVM function its operator states. */
private[keystate] abstract class JvmOperatorStates(keyed: KeyedStateStore)
    extends FunctionInitializationContext
    with keystate.OperatorStateStore {
  override def getOperatorStateStore: keystate.OperatorStateStore = this
  override def getKeyedStateStore: KeyedStateStore = keyed

  override def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T] =
    list(descriptor, union = false).asInstanceOf[ListState[T]]

  override def getUnionListState[T](descriptor: ListStateDescriptor[T]): ListState[T] =
    list(descriptor, union = true).asInstanceOf[ListState[T]]

  protected def list(descriptor: ListStateDescriptor[_], union: Boolean): InstanceList
}

/** Notes on the driver which operator states a function asks for. There is nothing to restore
  * there: the states are empty.
  */
private[keystate] final class OperatorStateDiscovery(keyed: KeyedStateStore)
    extends JvmOperatorStates(keyed) {
  val found = mutable.ArrayBuffer.empty[DeclaredList]

  override def isRestored: Boolean = false
  override def getRestoredCheckpointId: Option[Long] = None

  override protected def list(
      descriptor: ListStateDescriptor[_],
      union: Boolean
  ): InstanceList = {
    if (descriptor.getTtlConfig.isEnabled)
      throw KeystateErrors.cannotExpire(descriptor.name, "operator state")
    val state = DeclaredState("list", StateKind.List, descriptor, descriptor.elementType)
    found += DeclaredList(state, union)
    new InstanceList(state)
  }
}

/** Keeps a JVM function's instance and its subtask's operator state together.
  *
  * What an instance holds in its fields is state too. So each snapshot gets its own tag, which is
  * stored with it. The instance serves the next task only if that task begins with this very
  * snapshot.
  */
private[keystate] final class JvmOperatorState(
    function: AnyRef,
    declared: Seq[DeclaredList],
    keyed: KeyedStateStore,
    opening: OperatorTaskContext
) extends JvmOperatorStates(keyed) {
  private var tag = opening.operatorState.get.tag
  private var snapshotOf: Option[Long] = None
  private val restored: Option[OperatorState] = opening.operatorState.get
    .restored(declared.exists(_.union), opening.readOperatorStates)
  private val states = mutable.LinkedHashMap.empty[String, InstanceList]

  override def isRestored: Boolean = restored.nonEmpty
  override def getRestoredCheckpointId: Option[Long] = restored.map(_.batch)

  override protected def list(
      descriptor: ListStateDescriptor[_],
      union: Boolean
  ): InstanceList = states.getOrElseUpdate(
    descriptor.name, {
      val own = declared
        .find(_.state.spec.name == descriptor.name)
        .getOrElse(throw KeystateErrors.notDeclared(descriptor.name, "initializeState"))
      val elements = restored.toSeq.flatMap(_.lists).filter(_.name == descriptor.name)
      new InstanceList(own.state, elements.flatMap(_.elements))
    }
  )

  /** Gives the function the restored state of its subtask. */
  def initialize(): Unit = function match {
    case own: CheckpointedFunction => own.initializeState(this)
    case _ =>
  }

  /** Whether a task begins with the state that this instance has. */
  def goesOn(context: OperatorTaskContext): Boolean = context.operatorState.get.tag == tag

  /** Tells the function that its last micro-batch was committed: the next one has begun. */
  def begin(context: OperatorTaskContext): Unit =
    snapshotOf.filter(_ < context.batch.id).foreach { batch =>
      snapshotOf = None
      function match {
        case listener: CheckpointListener => listener.notifyCheckpointComplete(batch)
        case _ =>
      }
    }

  /** Stores what an instance would be restored with. Restored states that the function did not ask
    * for are stored again unchanged.
    */
  def snapshot(context: OperatorTaskContext): Unit = {
    val batch = context.batch.id
    function match {
      case own: CheckpointedFunction =>
        own.snapshotState(new FunctionSnapshotContext {
          override def getCheckpointId: Long = batch
          override def getCheckpointTimestamp: Long = context.batch.processingTime.get
        })
      case _ =>
    }
    val unions = declared.filter(_.union).map(_.state.spec.name).toSet
    val written = states.map { case (name, list) =>
      OperatorList(name, unions(name), list.encoded)
    }.toSeq
    val others = restored.toSeq.flatMap(_.lists).filterNot(list => states.contains(list.name))
    tag = UUID.randomUUID.toString
    snapshotOf = Some(batch)
    context.operatorState.get
      .put(OperatorState.toJson(OperatorState(batch, others ++ written)), tag)
  }
}

/** The current elements of one list. They are encoded, and so checked, only for a snapshot. */
private[keystate] final class InstanceList(declared: DeclaredState, restored: Seq[String] = Nil)
    extends ListState[Any] {
  private val format = new OperatorElements(declared)
  private var elements = format.decode(restored).toVector

  def encoded: Seq[String] = format.encode(elements)

  override def get(): Iterable[Any] = elements
  override def add(value: Any): Unit = elements :+= value
  override def addAll(values: IterableOnce[Any]): Unit = elements ++= values
  override def update(values: IterableOnce[Any]): Unit = elements = values.iterator.toVector
  override def clear(): Unit = elements = Vector.empty
}
