package org.apache.spark.sql.keystate.jvm.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder

import keystate.checkpoint.{OperatorList, OperatorState, RestoredOperatorState}
import keystate.errors.KeystateErrors
import keystate.{
  CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext,
  KeyGroupStatePartitionStreamProvider, KeyedStateCheckpointOutputStream, KeyedStateStore,
  ListCheckpointed, ListState, ListStateDescriptor, OperatorStateCheckpointOutputStream,
  StatePartitionStreamProvider
}
import org.apache.spark.sql.keystate.spec.StateKind
import org.apache.spark.sql.keystate.state.RawKeyedState

/** A list of operator state that a JVM function declared.
  *
  * @param union
  *   whether each subtask is restored with the elements of all subtasks
  */
private[keystate] final case class JvmListSpec(state: JvmStateSpec, union: Boolean)

/** The operator state that a JVM function declared.
  *
  * @param elements
  *   the encoder of the elements of a `ListCheckpointed`
  */
private[keystate] final case class JvmOperatorStateSpec(
    lists: Seq[JvmListSpec] = Nil,
    elements: Option[ExpressionEncoder[Any]] = None
) {

  /** The names of the union lists. */
  def unions: Set[String] = lists.filter(_.union).map(_.state.spec.name).toSet
}

private[keystate] object JvmOperatorStateSpec {

  /** The operator states that a function declares, which is asked on the driver. */
  def of(function: AnyRef, keyed: KeyedStateStore): JvmOperatorStateSpec = function match {
    case _: CheckpointedFunction with ListCheckpointed[_] =>
      throw KeystateErrors.declaration(
        s"${function.getClass.getName} is a CheckpointedFunction and a ListCheckpointed: be one " +
          "of them."
      )
    case own: CheckpointedFunction =>
      val asked = new OperatorStateDiscovery(keyed)
      own.initializeState(asked)
      JvmOperatorStateSpec(asked.found.toSeq)
    case own: ListCheckpointed[_] =>
      JvmOperatorStateSpec(elements = Some(ListElements.encoderOf(own)))
    case _ => JvmOperatorStateSpec()
  }
}

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
private final class OperatorStateDiscovery(keyed: KeyedStateStore)
    extends JvmOperatorStates(keyed) {
  val found = mutable.ArrayBuffer.empty[JvmListSpec]

  override def isRestored: Boolean = false
  override def getRestoredCheckpointId: Option[Long] = None
  override def getRawKeyedStateInputs: Iterable[KeyGroupStatePartitionStreamProvider] = Nil
  override def getRawOperatorStateInputs: Iterable[StatePartitionStreamProvider] = Nil

  override protected def list(descriptor: ListStateDescriptor[_], union: Boolean): InstanceList = {
    if (descriptor.getTtlConfig.isEnabled)
      throw KeystateErrors.cannotExpire(descriptor.name, "operator state")
    val state = JvmStateSpec("list", StateKind.List, descriptor, descriptor.elementType)
    found += JvmListSpec(state, union)
    new InstanceList(state)
  }
}

/** The operator states of one instance of a JVM function, of an operator or of a source.
  *
  * @param restored
  *   the state that the instance begins with
  * @param rawKeyed
  *   the raw keyed state that it begins with; None without keys
  */
private[keystate] final class InstanceStates(
    function: AnyRef,
    declared: JvmOperatorStateSpec,
    restored: Option[RestoredOperatorState],
    keyed: KeyedStateStore,
    rawKeyed: Option[RawKeyedState]
) extends JvmOperatorStates(keyed) {
  private val rawInputs = rawKeyed.map(new RawKeyedInputs(_))
  private val groups = rawKeyed.map(_.keyGroups)
  private val states = mutable.LinkedHashMap.empty[String, InstanceList]
  private val ownElements = declared.elements.map(new ListElements(_))

  override def isRestored: Boolean = restored.nonEmpty
  override def getRestoredCheckpointId: Option[Long] = restored.map(_.own.batch)

  override protected def list(descriptor: ListStateDescriptor[_], union: Boolean): InstanceList =
    states.getOrElseUpdate(
      descriptor.name, {
        val own = declared.lists
          .find(_.state.spec.name == descriptor.name)
          .getOrElse(throw KeystateErrors.notDeclared(descriptor.name, "initializeState"))
        new InstanceList(own.state, elements(descriptor.name))
      }
    )

  private def elements(name: String): Seq[String] =
    restored.toSeq.flatMap(_.elements(name))

  override def getRawOperatorStateInputs: Iterable[StatePartitionStreamProvider] =
    RawOutput.decode(elements(RawOutput.Name))

  override def getRawKeyedStateInputs: Iterable[KeyGroupStatePartitionStreamProvider] =
    rawInputs.getOrElse(throw KeystateErrors.rawStateWithoutKeys()).all

  /** Saves the lists' content, and returns a function that restores it. */
  def keep(): () => Unit = {
    val kept = states.values.map(_.keep()).toList
    () => kept.foreach(_())
  }

  /** Gives the function the restored state of its subtask. */
  def initialize(): Unit = {
    restore()
    rawInputs.foreach(_.close())
  }

  private def restore(): Unit = function match {
    case own: CheckpointedFunction => own.initializeState(this)
    case own: ListCheckpointed[_] if isRestored =>
      own
        .asInstanceOf[ListCheckpointed[Any]]
        .restoreState(ownElements.get.decode(elements(ListElements.Name)))
    case _ =>
  }

  /** The state that an instance would restore, and the raw streams by key group. Restored states
    * that the function did not get stay unchanged.
    *
    * @param batch
    *   the micro-batch that the snapshot ends
    * @param time
    *   its time in ms
    */
  def snapshot(batch: Long, time: => Long): (OperatorState, Map[Int, Array[Byte]]) = {
    val rawKeyed = groups.map(new RawKeyedOutput(_))
    val own = function match {
      case own: CheckpointedFunction =>
        val raw = new RawOutput
        own.snapshotState(new FunctionSnapshotContext {
          override def getCheckpointId: Long = batch
          override def getCheckpointTimestamp: Long = time
          override def getRawOperatorStateOutput: OperatorStateCheckpointOutputStream = raw
          override def getRawKeyedOperatorStateOutput: KeyedStateCheckpointOutputStream =
            rawKeyed.getOrElse(throw KeystateErrors.rawStateWithoutKeys())
        })
        OperatorList(RawOutput.Name, union = false, raw.encoded) +:
          states.map { case (name, list) =>
            OperatorList(name, declared.unions(name), list.encoded)
          }.toSeq
      case own: ListCheckpointed[_] =>
        val encoded = ownElements.get.encode(own.snapshotState(batch, time))
        Seq(OperatorList(ListElements.Name, union = false, encoded))
      case _ => Nil
    }
    val names = own.map(_.name).toSet
    val others = restored.toSeq.flatMap(_.own.lists).filterNot(list => names(list.name))
    (OperatorState(batch, others ++ own), rawKeyed.fold(Map.empty[Int, Array[Byte]])(_.byGroup))
  }
}
