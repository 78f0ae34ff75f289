package org.apache.spark.sql.keystate

import scala.annotation.nowarn
import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.types.StructType

import keystate.{KeyOrder => _, _}

/** A state that a JVM function declared, and the encoders of its values and user keys. They are bound
  * on the driver: before that they don't survive being sent.
  */
private[keystate] final case class DeclaredState(
    spec: StateSpec,
    value: ExpressionEncoder[Any],
    key: Option[ExpressionEncoder[Any]]
)

private[keystate] object DeclaredState {
  def apply(
      kindName: String,
      kind: StateKind,
      descriptor: StateDescriptor[_],
      valueType: TypeInformation[_],
      keyType: Option[TypeInformation[_]] = None,
      order: KeyOrder = KeyOrder.Natural
  ): DeclaredState = {
    val name = descriptor.name
    val value = encoder(name, valueType)
    val key = keyType.map(encoder(name, _))
    val spec = StateSpec(
      name,
      kind,
      kindName,
      FieldDefaults.in(ObjectCodec.dataType(value), value.encoder, defaultOf(descriptor)),
      key.map(ObjectCodec.dataType(_)),
      order,
      descriptor.getTtlConfig.timeToLive
    )
    spec.keyType.foreach { key =>
      try OrderedKeyCodec(key, order)
      catch {
        case e: IllegalArgumentException =>
          throw KeystateErrors.declaration(s"The keys of state '$name': ${e.getMessage}", e)
      }
    }
    DeclaredState(spec, value, key)
  }

  @nowarn("cat=deprecation")
  private def defaultOf(descriptor: StateDescriptor[_]): Any = descriptor match {
    case value: ValueStateDescriptor[_] => value.default
    case folding: FoldingStateDescriptor[_, _] => folding.initial
    case _ => null
  }

  private def encoder(name: String, declared: TypeInformation[_]): ExpressionEncoder[Any] = {
    val encoder =
      try ObjectCodec.expression(declared.encoder)
      catch {
        case NonFatal(e) =>
          throw KeystateErrors.declaration(s"The type of state '$name': ${e.getMessage}", e)
      }
    val optional = !encoder.isSerializedAsStructForTopLevel &&
      encoder.schema.head.dataType.isInstanceOf[StructType]
    if (optional)
      throw KeystateErrors.declaration(
        s"The type of state '$name' is an Option of a struct: declare the struct, null is none."
      )
    encoder.resolveAndBind()
  }
}

/** Gives a JVM function its states. */
@nowarn("cat=deprecation")
private[keystate] abstract class JvmRuntimeContext(cursor: KeyCursor) extends RuntimeContext {
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

  /** The state of a name, and its index. */
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
      value("folding", descriptor, descriptor.accumulatorType),
      descriptor.function.asInstanceOf[FoldFunction[Any, Any]],
      descriptor.initial
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
    val order = KeyOrder.byName(descriptor.order.name)
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
      order: KeyOrder = KeyOrder.Natural
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

/** Takes notes of which states a function asks for in `open` on the driver. */
private[keystate] final class DiscoveryContext(name: Option[String])
    extends JvmRuntimeContext(new KeyCursor) {
  val found = mutable.ArrayBuffer.empty[DeclaredState]

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
}

/** The context of a function in a task. */
private[keystate] final class TaskRuntimeContext(
    states: Seq[DeclaredState],
    cursor: KeyCursor,
    context: () => KeyedContext
) extends JvmRuntimeContext(cursor) {
  override protected def declared(
      name: String,
      declare: => DeclaredState
  ): (DeclaredState, Int) = states.indexWhere(_.spec.name == name) match {
    case -1 => throw KeystateErrors.notDeclared(name, "open")
    case i => (states(i), i)
  }

  override def getTaskName: String = TaskRuntimeContext.taskName(context().spec.name)
  override def getIndexOfThisSubtask: Int = context().task.partitionId()
  override def getNumberOfParallelSubtasks: Int = context().parallelism
  override def getMaxNumberOfParallelSubtasks: Int = context().maxParallelism
  override def getAttemptNumber: Int = context().task.attemptNumber()
}

private object TaskRuntimeContext {
  def taskName(operator: Option[String]): String = operator.getOrElse("keyed process")
}
