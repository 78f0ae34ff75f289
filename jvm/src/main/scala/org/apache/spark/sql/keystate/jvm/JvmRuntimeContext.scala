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
  AggregateFunction,
  AggregatingState,
  AggregatingStateDescriptor,
  FoldFunction,
  FoldingState,
  FoldingStateDescriptor,
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  MetricGroup,
  ReduceFunction,
  ReducingState,
  ReducingStateDescriptor,
  RuntimeContext,
  SortedMapState,
  SortedMapStateDescriptor,
  State,
  StateDescriptor,
  TypeInformation,
  ValueState,
  ValueStateDescriptor
}
import org.apache.spark.sql.keystate.encoding.{ObjectCodec, StoredOrder}
import org.apache.spark.sql.keystate.jvm.state.DeclaredState
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

  private def keep[S <: State](descriptor: StateDescriptor[S])(make: => S): S = {
    if (states.contains(descriptor.name)) throw KeystateErrors.twoStates(descriptor.name)
    val state = make
    states(descriptor.name) = state
    state
  }

  /** The state with this name, and its index. */
  protected def declared(name: String, declare: => DeclaredState): (DeclaredState, Int)

  override def getState[T](descriptor: ValueStateDescriptor[T]): ValueState[T] =
    keep(descriptor) {
      value("value", descriptor, descriptor.valueType, descriptor.default)
        .asInstanceOf[ValueState[T]]
    }

  override def getReducingState[T](descriptor: ReducingStateDescriptor[T]): ReducingState[T] =
    keep(descriptor) {
      new JvmReducingState(
        value("reducing", descriptor, descriptor.valueType),
        descriptor.function.asInstanceOf[ReduceFunction[Any]]
      ).asInstanceOf[ReducingState[T]]
    }

  override def getAggregatingState[IN, ACC, OUT](
      descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
  ): AggregatingState[IN, OUT] = keep(descriptor) {
    new JvmAggregatingState(
      value("aggregating", descriptor, descriptor.accumulatorType),
      descriptor.function.asInstanceOf[AggregateFunction[Any, Any, Any]]
    ).asInstanceOf[AggregatingState[IN, OUT]]
  }

  override def getFoldingState[T, ACC](
      descriptor: FoldingStateDescriptor[T, ACC]
  ): FoldingState[T, ACC] = keep(descriptor) {
    new JvmFoldingState(
      value("folding", descriptor, descriptor.accumulatorType, descriptor.initial),
      descriptor.function.asInstanceOf[FoldFunction[Any, Any]]
    ).asInstanceOf[FoldingState[T, ACC]]
  }

  override def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T] =
    keep(descriptor) {
      val (state, i) = declared(
        descriptor.name,
        DeclaredState("list", StateKind.List, descriptor, descriptor.elementType)
      )
      new JvmListState(state.spec, i, new ObjectCodec(state.value), cursor)
        .asInstanceOf[ListState[T]]
    }

  override def getMapState[K, V](descriptor: MapStateDescriptor[K, V]): MapState[K, V] =
    keep(descriptor) {
      val types = (descriptor.keyType, descriptor.valueType)
      map("map", StateKind.Map, descriptor, types).asInstanceOf[MapState[K, V]]
    }

  override def getSortedMapState[K, V](
      descriptor: SortedMapStateDescriptor[K, V]
  ): SortedMapState[K, V] = keep(descriptor) {
    val types = (descriptor.keyType, descriptor.valueType)
    val order = StoredOrder.byName(descriptor.order.name)
    map("sorted_map", StateKind.SortedMap, descriptor, types, order)
      .asInstanceOf[SortedMapState[K, V]]
  }

  private def value(
      kind: String,
      descriptor: StateDescriptor[_],
      valueType: TypeInformation[_],
      default: Any = null
  ): JvmValueState = {
    val (state, i) =
      declared(descriptor.name, DeclaredState(kind, StateKind.Value, descriptor, valueType))
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
      DeclaredState(name, kind, descriptor, types._2, Some(types._1), order)
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
  val found = mutable.ArrayBuffer.empty[DeclaredState]

  /** Whether it asked for its metrics. */
  var hasMetrics = false

  private val metrics = new FunctionMetrics

  override def getMetricGroup: MetricGroup = {
    hasMetrics = true
    metrics.group
  }

  override protected def declared(
      name: String,
      declare: => DeclaredState
  ): (DeclaredState, Int) = {
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

  // A key's object may be of a wider type than its column, by which the group goes.
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
    states: Seq[DeclaredState],
    cursor: CurrentKey,
    key: ExpressionEncoder[Any],
    context: () => OperatorTaskContext
) extends JvmRuntimeContext(cursor) {

  /** The metrics of the instance. */
  val metrics = new FunctionMetrics

  override def getMetricGroup: MetricGroup =
    if (context().spec.metrics) metrics.group else throw KeystateErrors.noMetricsPlanned()

  override protected def declared(
      name: String,
      declare: => DeclaredState
  ): (DeclaredState, Int) = states.indexWhere(_.spec.name == name) match {
    case -1 => throw KeystateErrors.notDeclared(name, "open")
    case i => (states(i), i)
  }

  override def getTaskName: String = TaskRuntimeContext.taskName(context().spec.name)
  override def getIndexOfThisSubtask: Int = context().task.partitionId()
  override def getNumberOfParallelSubtasks: Int = context().batch.parallelism
  override def getMaxNumberOfParallelSubtasks: Int = context().batch.maxParallelism
  override def getAttemptNumber: Int = context().task.attemptNumber()

  private lazy val groups = new KeyGroupOf(key, context().columns.grouping, context().batch)
  override def getKeyGroup(key: Any): Int = groups.of(key)
}

private object TaskRuntimeContext {
  def taskName(operator: Option[String]): String = operator.getOrElse("keyed process")
}
