package org.apache.spark.sql.keystate.jvm

import scala.annotation.nowarn
import scala.collection.mutable

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.types.DataTypeUtils

import keystate.errors.KeystateErrors
import keystate.{
  AggregateFunction, AggregatingStateDescriptor, FoldFunction, FoldingStateDescriptor,
  ListStateDescriptor, MapStateDescriptor, MetricGroup, ReduceFunction, ReducingStateDescriptor,
  RuntimeContext, SortedMapStateDescriptor, State, StateDescriptor, TypeInformation,
  ValueStateDescriptor
}
import org.apache.spark.sql.keystate.encoding.{ObjectCodec, StoredOrder}
import org.apache.spark.sql.keystate.jvm.state.{
  CurrentKey, JvmAggregatingState, JvmFoldingState, JvmListState, JvmMapState, JvmReducingState,
  JvmStateSpec, JvmValueState
}
import org.apache.spark.sql.keystate.metrics.FunctionMetrics
import org.apache.spark.sql.keystate.operator.{BatchInfo, KeyReader, OperatorTaskContext}
import org.apache.spark.sql.keystate.spec.StateKind

/** Gives a JVM function its states. */
@nowarn("cat=deprecation")
private[keystate] abstract class JvmRuntimeContext(cursor: CurrentKey) extends RuntimeContext {
  private val states = mutable.HashMap.empty[String, State]

  /** The state that the function got with a descriptor of this name. */
  def stateOf[S <: State](descriptor: StateDescriptor[S]): S =
    states(descriptor.name).asInstanceOf[S]

  /** The state with this name, and its index. */
  protected def declared(name: String, declare: => JvmStateSpec): (JvmStateSpec, Int)

  override def provide[S <: State](descriptor: StateDescriptor[S]): S = {
    if (states.contains(descriptor.name)) throw KeystateErrors.twoStates(descriptor.name)
    states(descriptor.name) = make(descriptor)
    stateOf(descriptor)
  }

  private def make(descriptor: StateDescriptor[_]): State = descriptor match {
    case of: ValueStateDescriptor[_] => value("value", of, of.valueType, of.default)
    case of: ReducingStateDescriptor[_] =>
      new JvmReducingState(
        value("reducing", of, of.valueType),
        of.function.asInstanceOf[ReduceFunction[Any]]
      )
    case of: AggregatingStateDescriptor[_, _, _] =>
      new JvmAggregatingState(
        value("aggregating", of, of.accumulatorType),
        of.function.asInstanceOf[AggregateFunction[Any, Any, Any]]
      )
    case of: FoldingStateDescriptor[_, _] =>
      new JvmFoldingState(
        value("folding", of, of.accumulatorType, of.initial),
        of.function.asInstanceOf[FoldFunction[Any, Any]]
      )
    case of: ListStateDescriptor[_] =>
      val (state, i) =
        declared(of.name, JvmStateSpec("list", StateKind.List, of, of.elementType))
      new JvmListState(state.spec, i, new ObjectCodec(state.value), cursor)
    case of: MapStateDescriptor[_, _] => map("map", StateKind.Map, of, (of.keyType, of.valueType))
    case of: SortedMapStateDescriptor[_, _] =>
      val order = StoredOrder.byName(of.order.name)
      map("sorted_map", StateKind.SortedMap, of, (of.keyType, of.valueType), order)
  }

  private def value(
      kind: String,
      descriptor: StateDescriptor[_],
      valueType: TypeInformation[_],
      default: Any = null
  ): JvmValueState = {
    val (state, i) =
      declared(descriptor.name, JvmStateSpec(kind, StateKind.Value, descriptor, valueType))
    new JvmValueState(state.spec, i, new ObjectCodec(state.value), cursor, default)
  }

  private def map(
      name: String,
      kind: StateKind,
      descriptor: StateDescriptor[_],
      types: (TypeInformation[_], TypeInformation[_]),
      order: StoredOrder = StoredOrder.Natural
  ): JvmMapState = {
    val (state, i) = declared(
      descriptor.name,
      JvmStateSpec(name, kind, descriptor, types._2, Some(types._1), order)
    )
    new JvmMapState(
      state.spec,
      i,
      new ObjectCodec(state.key.get),
      new ObjectCodec(state.value),
      cursor
    )
  }
}

/** Notes on the driver which states a function asks for in `open`. */
private[keystate] final class DiscoveryContext(name: Option[String])
    extends JvmRuntimeContext(new CurrentKey) {
  val found = mutable.ArrayBuffer.empty[JvmStateSpec]

  /** Whether the function got its metric group. */
  var hasMetrics = false

  private val metrics = new FunctionMetrics

  override def getMetricGroup: MetricGroup = {
    hasMetrics = true
    metrics.group
  }

  override protected def declared(name: String, declare: => JvmStateSpec): (JvmStateSpec, Int) = {
    found += declare
    (found.last, found.size - 1)
  }

  override def getTaskName: String = TaskRuntimeContext.taskName(name)
  override def getIndexOfThisSubtask: Int = 0
  override def getNumberOfParallelSubtasks: Int = 1
  override def getMaxNumberOfParallelSubtasks: Int = 1
  override def getAttemptNumber: Int = 0
  override def getKeyGroup(key: Any): Int = 0
}

/** Computes the groups of keys.
  *
  * @param key
  *   the encoder of keys
  * @param columns
  *   the key columns
  */
private final class KeyGroupOf(
    key: ExpressionEncoder[Any],
    columns: Seq[Attribute],
    batch: BatchInfo
) {
  if (columns.isEmpty) throw KeystateErrors.keyGroupWithoutKeys()
  private val toRow = key.createSerializer()
  private val isRow = key.clsTag.runtimeClass == classOf[Row]

  // A key's object may be of a wider type than its column, and the column's type determines the
  // group.
  private val reader = {
    val fields = DataTypeUtils.toAttributes(key.schema)
    val keys = fields.zip(columns).map { case (field, column) =>
      NormalizeFloatingNumbers.normalize(Cast(field, column.dataType))
    }
    new KeyReader(keys, fields, batch.maxParallelism)
  }

  def of(key: Any): Int = reader.group(toRow(key match {
    case row: Row => row
    case value if isRow => Row(value)
    case other => other
  }))
}

/** The context of a function in a task. */
private[keystate] final class TaskRuntimeContext(
    states: Seq[JvmStateSpec],
    cursor: CurrentKey,
    key: ExpressionEncoder[Any],
    context: () => OperatorTaskContext
) extends JvmRuntimeContext(cursor) {

  /** The metrics of the instance. */
  val metrics = new FunctionMetrics

  override def getMetricGroup: MetricGroup =
    if (context().spec.metrics) metrics.group else throw KeystateErrors.noMetricsPlanned()

  override protected def declared(name: String, declare: => JvmStateSpec): (JvmStateSpec, Int) =
    states.indexWhere(_.spec.name == name) match {
      case -1 => throw KeystateErrors.notDeclared(name, "open")
      case i => (states(i), i)
    }

  override def getTaskName: String = TaskRuntimeContext.taskName(context().spec.name)
  override def getIndexOfThisSubtask: Int = context().index
  override def getNumberOfParallelSubtasks: Int = context().batch.parallelism
  override def getMaxNumberOfParallelSubtasks: Int = context().batch.maxParallelism
  override def getAttemptNumber: Int = context().task.attemptNumber()

  private lazy val groups = new KeyGroupOf(key, context().columns.grouping, context().batch)
  override def getKeyGroup(key: Any): Int = groups.of(key)
}

private object TaskRuntimeContext {
  def taskName(operator: Option[String]): String = operator.getOrElse("keyed process")
}
