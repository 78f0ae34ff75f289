package keystate

/** Names a state and gives its types; the [[RuntimeContext]] returns the state for it.
  *
  * `new` takes the types as in Flink; the companions' `apply` derives them:
  * `ValueStateDescriptor[Long]("count")`. The checkpoint identifies a state by its name.
  * docs/schema-evolution.md says what may change at a restart.
  */
sealed abstract class StateDescriptor[S <: State] extends Serializable {
  private var ttl = StateTtlConfig.DISABLED
  private var limit: Option[Long] = None

  /** The state's name, unique within a function. It must not be empty or "default", begin with "$",
    * or have white space at either end; else getting the state fails with `KEYSTATE_RESERVED_NAME`.
    */
  def name: String

  /** Lets the state's values expire; call it before getting the state. Operator and broadcast
    * states can't have a time to live (`KEYSTATE_DECLARATION`).
    */
  def enableTimeToLive(config: StateTtlConfig): Unit = ttl = config

  /** The time to live; [[StateTtlConfig.DISABLED]] if it was not enabled. */
  def getTtlConfig: StateTtlConfig = ttl

  /** Limits the number of the state's entries over all keys; call it before getting the state. A
    * value counts as one entry, and so does each key of a map. The setting
    * `spark.keystate.state.onLimit` says what happens above the limit. Keyed state only.
    *
    * @throws java.lang.IllegalArgumentException
    *   if it is less than 1
    */
  def setMaxEntries(entries: Long): Unit = {
    require(entries >= 1, s"state '$name': the most entries must be 1 or more, got $entries")
    limit = Some(entries)
  }

  /** The maximum number of the state's entries. */
  def getMaxEntries: Option[Long] = limit
}

/** Describes a [[ValueState]].
  *
  * @param default
  *   `value` returns a copy of it when there is no value
  */
final class ValueStateDescriptor[T](
    val name: String,
    val valueType: TypeInformation[T],
    val default: T
) extends StateDescriptor[ValueState[T]] {

  /** Without a default: `value` returns null when there is no value. */
  def this(name: String, valueType: TypeInformation[T]) =
    this(name, valueType, null.asInstanceOf[T])
}

object ValueStateDescriptor {

  /** Without a default: `value` returns null when there is no value. */
  def apply[T: TypeInformation](name: String): ValueStateDescriptor[T] =
    new ValueStateDescriptor(name, implicitly[TypeInformation[T]])

  /** With a default, which `value` returns when there is no value. */
  def apply[T](name: String, default: T)(implicit
      valueType: TypeInformation[T]
  ): ValueStateDescriptor[T] = new ValueStateDescriptor(name, valueType, default)
}

/** Describes a [[ListState]]. */
final class ListStateDescriptor[T](val name: String, val elementType: TypeInformation[T])
    extends StateDescriptor[ListState[T]]

object ListStateDescriptor {

  /** A list of elements of type T. */
  def apply[T: TypeInformation](name: String): ListStateDescriptor[T] =
    new ListStateDescriptor(name, implicitly[TypeInformation[T]])
}

/** Describes a [[MapState]], or a [[BroadcastState]]. Keys need a type with an order, so they can't
  * contain maps.
  */
final class MapStateDescriptor[K, V](
    val name: String,
    val keyType: TypeInformation[K],
    val valueType: TypeInformation[V]
) extends StateDescriptor[MapState[K, V]]

object MapStateDescriptor {

  /** A map from K to V. */
  def apply[K, V](
      name: String
  )(implicit keyType: TypeInformation[K], valueType: TypeInformation[V]): MapStateDescriptor[K, V] =
    new MapStateDescriptor(name, keyType, valueType)
}

/** The order of a sorted map's keys. It can't change in a checkpoint. */
sealed abstract class KeyOrder private[keystate] (val name: String) extends Serializable

object KeyOrder {

  /** The order in which Spark sorts the type. */
  case object NATURAL extends KeyOrder("natural")

  /** The reverse of the natural order. */
  case object DESCENDING extends KeyOrder("descending")

  /** The order of Flink's `BytewiseComparator`: by the bytes of the key, so negative numbers follow
    * the others, as do dates and times before 1970 and negative intervals.
    */
  case object BYTEWISE extends KeyOrder("bytewise")
}

/** Flink's names for [[KeyOrder.BYTEWISE]], one for each type of key; all of them are the same
  * order.
  */
object BytewiseComparator {
  val BYTE_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val SHORT_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val INT_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val LONG_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val FLOAT_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
  val DOUBLE_INSTANCE: KeyOrder = KeyOrder.BYTEWISE
}

/** Describes a [[SortedMapState]]. Keys need a type with an order, so they can't contain maps. */
final class SortedMapStateDescriptor[K, V](
    val name: String,
    val order: KeyOrder,
    val keyType: TypeInformation[K],
    val valueType: TypeInformation[V]
) extends StateDescriptor[SortedMapState[K, V]] {

  /** A descriptor whose types are named by their classes, such as `classOf[java.lang.Long]`. */
  def this(name: String, order: KeyOrder, keyClass: Class[K], valueClass: Class[V]) =
    this(name, order, TypeInformation.of(keyClass), TypeInformation.of(valueClass))
}

object SortedMapStateDescriptor {

  /** A map from K to V in this order of its keys. */
  def apply[K, V](name: String, order: KeyOrder = KeyOrder.NATURAL)(implicit
      keyType: TypeInformation[K],
      valueType: TypeInformation[V]
  ): SortedMapStateDescriptor[K, V] = new SortedMapStateDescriptor(name, order, keyType, valueType)
}

/** Describes a [[ReducingState]]. The function is not stored: each run uses its own. */
final class ReducingStateDescriptor[T](
    val name: String,
    val function: ReduceFunction[T],
    val valueType: TypeInformation[T]
) extends StateDescriptor[ReducingState[T]]

object ReducingStateDescriptor {

  /** A value: this function reduces all added values to it. */
  def apply[T](name: String, function: ReduceFunction[T])(implicit
      valueType: TypeInformation[T]
  ): ReducingStateDescriptor[T] = new ReducingStateDescriptor(name, function, valueType)
}

/** Describes an [[AggregatingState]], which keeps the accumulator. The function is not stored: each
  * run uses its own.
  */
final class AggregatingStateDescriptor[IN, ACC, OUT](
    val name: String,
    val function: AggregateFunction[IN, ACC, OUT],
    val accumulatorType: TypeInformation[ACC]
) extends StateDescriptor[AggregatingState[IN, OUT]]

object AggregatingStateDescriptor {

  /** A result: this function computes it from all added values. */
  def apply[IN, ACC, OUT](name: String, function: AggregateFunction[IN, ACC, OUT])(implicit
      accumulatorType: TypeInformation[ACC]
  ): AggregatingStateDescriptor[IN, ACC, OUT] =
    new AggregatingStateDescriptor(name, function, accumulatorType)
}

/** Describes a [[FoldingState]]. The function is not stored: each run uses its own.
  *
  * @param initial
  *   every key's first accumulator is a copy of it
  */
@deprecated("use AggregatingStateDescriptor", "Flink 1.4")
final class FoldingStateDescriptor[T, ACC](
    val name: String,
    val initial: ACC,
    val function: FoldFunction[T, ACC],
    val accumulatorType: TypeInformation[ACC]
) extends StateDescriptor[FoldingState[T, ACC]]

object FoldingStateDescriptor {

  /** An accumulator: it starts as `initial`, and this function adds all values to it. */
  @deprecated("use AggregatingStateDescriptor", "Flink 1.4")
  def apply[T, ACC](name: String, initial: ACC, function: FoldFunction[T, ACC])(implicit
      accumulatorType: TypeInformation[ACC]
  ): FoldingStateDescriptor[T, ACC] =
    new FoldingStateDescriptor(name, initial, function, accumulatorType)
}
