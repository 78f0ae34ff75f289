package keystate

import scala.annotation.nowarn

/** Gives a function its keyed states: get each one in `open` or `initializeState`, once, and keep
  * it in a `@transient` field.
  *
  * A state that the copy on the driver did not ask for, two states of one name, and a state of a
  * function without keys are a [[KeystateException]], `KEYSTATE_DECLARATION`. In Flink a state may
  * be got at any time.
  */
@nowarn("cat=deprecation")
trait KeyedStateStore {

  /** One value for each key. */
  def getState[T](descriptor: ValueStateDescriptor[T]): ValueState[T] = provide(descriptor)

  /** A list for each key. */
  def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T] = provide(descriptor)

  /** A map for each key. */
  def getMapState[K, V](descriptor: MapStateDescriptor[K, V]): MapState[K, V] =
    provide(descriptor)

  /** A map in the order of its own keys, for each key. */
  def getSortedMapState[K, V](descriptor: SortedMapStateDescriptor[K, V]): SortedMapState[K, V] =
    provide(descriptor)

  /** What the descriptor's function reduces the added values to, for each key. */
  def getReducingState[T](descriptor: ReducingStateDescriptor[T]): ReducingState[T] =
    provide(descriptor)

  /** What the descriptor's function aggregates of the added values, for each key. */
  def getAggregatingState[IN, ACC, OUT](
      descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
  ): AggregatingState[IN, OUT] = provide(descriptor)

  /** What the descriptor's function folds the added values into, for each key. */
  def getFoldingState[T, ACC](descriptor: FoldingStateDescriptor[T, ACC]): FoldingState[T, ACC] =
    provide(descriptor)

  /** The state of a descriptor of any kind. */
  protected[keystate] def provide[S <: State](descriptor: StateDescriptor[S]): S
}

/** What a function is told when it is opened. Get every state in `open`, unconditionally: a query
  * is planned with the states that `open` asks for on a copy on the driver.
  */
trait RuntimeContext extends KeyedStateStore {

  /** The operator's name, or "keyed process" if it was given none. */
  def getTaskName: String

  /** From 0. On the driver 0. */
  def getIndexOfThisSubtask: Int

  /** The number of subtasks, which may change at a restart. On the driver 1. */
  def getNumberOfParallelSubtasks: Int

  /** The number of key groups, and so the most subtasks there can ever be. On the driver 1. */
  def getMaxNumberOfParallelSubtasks: Int

  /** Which attempt at its Spark task this is, from 0. */
  def getAttemptNumber: Int

  /** The key group of a key, from 0; a key's group never changes. On the driver 0.
    *
    * @param key
    *   as `getCurrentKey` has it; in a function without that, the value of the one key column, or a
    *   Row
    */
  def getKeyGroup(key: Any): Int

  /** The function's own metrics. A source has none (`KEYSTATE_DECLARATION`), and no function that
    * had none when the query was planned.
    */
  def getMetricGroup: MetricGroup
}

/** Empty; functions written for Flink take it in `open`. */
final class Configuration
