package org.apache.spark.sql.keystate.jvm

import java.util.{Base64, UUID}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray}

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
import org.apache.spark.sql.keystate.encoding.{ArrowStreams, ObjectCodec}
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.spec.{SchemaEvolution, StateKind}

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

/** The current elements of one list, in the form that rows have: so each is what it was when it was
  * added, whatever becomes of the function's object.
  */
private[keystate] final class InstanceList(declared: DeclaredState, restored: Seq[String] = Nil)
    extends ListState[Any] {
  private val format = new OperatorElements(declared)
  private var elements = format.decode(restored).toVector

  def encoded: Seq[String] = format.encode(elements)

  override def get(): Iterable[Any] = elements.view.map(format.toObject)
  override def add(value: Any): Unit = elements :+= format.fromObject(value)
  override def addAll(values: IterableOnce[Any]): Unit = elements ++= taken(values)
  override def update(values: IterableOnce[Any]): Unit = elements = taken(values)

  // Each value at once: an iterator may give the same object again with another content.
  private def taken(values: IterableOnce[Any]): Vector[Any] =
    values.iterator.map(format.fromObject).toVector

  override def clear(): Unit = elements = Vector.empty
}

/** The elements of a list of operator state, as the checkpoint has them. Each is an Arrow stream of
  * its own in Base64, so that elements can be distributed one by one. The Python worker writes and
  * reads the same format.
  */
private[keystate] final class OperatorElements(declared: DeclaredState) {
  private val spec = declared.spec
  private val codec = new ObjectCodec(declared.value)
  private val format = new ArrowStreams("UTC", largeVarTypes = false)

  private def schema(element: DataType) = new StructType().add("element", element)

  /** The element as a row's field has it. */
  def fromObject(element: Any): Any =
    KeystateErrors.inState(spec.name, spec.describe)(codec.field(element))

  def toObject(field: Any): Any = codec.fromField(InternalRow(field), 0)

  def encode(fields: Seq[Any]): Seq[String] = fields.map { field =>
    val stream = format.write(schema(spec.valueType)) { writers =>
      writers.head.write(InternalRow(field), 0)
      1
    }
    Base64.getEncoder.encodeToString(stream)
  }

  def decode(encoded: Seq[String]): Seq[Any] = encoded.map { element =>
    format.readVectors(Base64.getDecoder.decode(element)) { root =>
      val vector = root.getVector(0)
      val stored = ArrowUtils.fromArrowField(vector.getField)
      val field = new ColumnarArray(new ArrowColumnVector(vector), 0, 1).get(0, stored)
      val read = readers.getOrElseUpdate(stored, reader(stored))
      read(InternalRow(field)).copy().get(0, spec.valueType)
    }
  }

  private val readers = mutable.HashMap.empty[DataType, UnsafeProjection]

  /** Reads elements of type `stored`, which may be older, as elements of the list's type now. */
  private def reader(stored: DataType): UnsafeProjection = {
    SchemaEvolution.check(stored, spec.valueType).foreach { reason =>
      val before = spec.copy(valueType = stored).describe
      throw KeystateErrors.stateChanged(spec.name, before, spec.describe, reason)
    }
    UnsafeProjection.create(SchemaEvolution.project(schema(stored), schema(spec.valueType)))
  }
}
