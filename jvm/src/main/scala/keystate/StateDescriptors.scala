package keystate

/** Names a state and gives its types; get the state with it from the [[RuntimeContext]].
  *
  * `new` takes the types as Flink does; the companions' `apply` finds them:
  * `ValueStateDescriptor[Long]("count")`.
  */
sealed abstract class StateDescriptor[S <: State] extends Serializable {
  private var ttl = StateTtlConfig.DISABLED

  def name: String

  /** Lets the state's values expire. */
  def enableTimeToLive(config: StateTtlConfig): Unit = ttl = config

  def getTtlConfig: StateTtlConfig = ttl
}

/** Describes a [[ValueState]].
  *
  * @param default
  *   what `value` returns when there is none
  */
final class ValueStateDescriptor[T](
    val name: String,
    val valueType: TypeInformation[T],
    val default: T
) extends StateDescriptor[ValueState[T]] {
  def this(name: String, valueType: TypeInformation[T]) =
    this(name, valueType, null.asInstanceOf[T])
}

object ValueStateDescriptor {
  def apply[T: TypeInformation](name: String): ValueStateDescriptor[T] =
    new ValueStateDescriptor(name, implicitly[TypeInformation[T]])
  def apply[T](name: String, default: T)(implicit
      valueType: TypeInformation[T]
  ): ValueStateDescriptor[T] = new ValueStateDescriptor(name, valueType, default)
}

/** Describes a [[ListState]]. */
final class ListStateDescriptor[T](val name: String, val elementType: TypeInformation[T])
    extends StateDescriptor[ListState[T]]

object ListStateDescriptor {
  def apply[T: TypeInformation](name: String): ListStateDescriptor[T] =
    new ListStateDescriptor(name, implicitly[TypeInformation[T]])
}

/** Describes a [[MapState]]. */
final class MapStateDescriptor[K, V](
    val name: String,
    val keyType: TypeInformation[K],
    val valueType: TypeInformation[V]
) extends StateDescriptor[MapState[K, V]]

object MapStateDescriptor {
  def apply[K, V](name: String)(implicit
      keyType: TypeInformation[K],
      valueType: TypeInformation[V]
  ): MapStateDescriptor[K, V] = new MapStateDescriptor(name, keyType, valueType)
}

/** The order of a sorted map's keys. */
sealed abstract class KeyOrder private[keystate] (val name: String) extends Serializable

object KeyOrder {

  /** As Spark sorts the type. */
  case object NATURAL extends KeyOrder("natural")

  /** The other way round. */
  case object DESCENDING extends KeyOrder("descending")

  /** As Flink's `BytewiseComparator`: negative numbers follow the others. */
  case object BYTEWISE extends KeyOrder("bytewise")
}

/** Flink's names for [[KeyOrder.BYTEWISE]]. */
object BytewiseComparator {
  val BYTE_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val SHORT_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val INT_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val LONG_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val FLOAT_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val DOUBLE_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
}

/** Describes a [[SortedMapState]]. */
final class SortedMapStateDescriptor[K, V](
    val name: String,
    val order: KeyOrder,
    val keyType: TypeInformation[K],
    val valueType: TypeInformation[V]
) extends StateDescriptor[SortedMapState[K, V]] {
  def this(name: String, order: KeyOrder, keyClass: Class[K], valueClass: Class[V]) =
    this(name, order, TypeInformation.of(keyClass), TypeInformation.of(valueClass))
}

object SortedMapStateDescriptor {
  def apply[K, V](name: String, order: KeyOrder = KeyOrder.NATURAL)(implicit
      keyType: TypeInformation[K],
      valueType: TypeInformation[V]
  ): SortedMapStateDescriptor[K, V] = new SortedMapStateDescriptor(name, order, keyType, valueType)
}

/** Describes a [[ReducingState]]. */
final class ReducingStateDescriptor[T](
    val name: String,
    val function: ReduceFunction[T],
    val valueType: TypeInformation[T]
) extends StateDescriptor[ReducingState[T]]

object ReducingStateDescriptor {
  def apply[T](name: String, function: ReduceFunction[T])(implicit
      valueType: TypeInformation[T]
  ): ReducingStateDescriptor[T] = new ReducingStateDescriptor(name, function, valueType)
}

/** Describes an [[AggregatingState]], which keeps the accumulator. */
final class AggregatingStateDescriptor[IN, ACC, OUT](
    val name: String,
    val function: AggregateFunction[IN, ACC, OUT],
    val accumulatorType: TypeInformation[ACC]
) extends StateDescriptor[AggregatingState[IN, OUT]]

object AggregatingStateDescriptor {
  def apply[IN, ACC, OUT](name: String, function: AggregateFunction[IN, ACC, OUT])(implicit
      accumulatorType: TypeInformation[ACC]
  ): AggregatingStateDescriptor[IN, ACC, OUT] =
    new AggregatingStateDescriptor(name, function, accumulatorType)
}

/** Describes a [[FoldingState]]. */
@deprecated("use AggregatingStateDescriptor", "Flink 1.4")
final class FoldingStateDescriptor[T, ACC](
    val name: String,
    val initial: ACC,
    val function: FoldFunction[T, ACC],
    val accumulatorType: TypeInformation[ACC]
) extends StateDescriptor[FoldingState[T, ACC]]

object FoldingStateDescriptor {
  @deprecated("use AggregatingStateDescriptor", "Flink 1.4")
  def apply[T, ACC](name: String, initial: ACC, function: FoldFunction[T, ACC])(implicit
      accumulatorType: TypeInformation[ACC]
  ): FoldingStateDescriptor[T, ACC] =
    new FoldingStateDescriptor(name, initial, function, accumulatorType)
}
