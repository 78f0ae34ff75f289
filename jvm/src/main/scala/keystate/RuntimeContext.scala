package keystate

import scala.annotation.nowarn

/** Gives a function its keyed states: get each state once, in `open` or `initializeState`, and keep
  * it in a `@transient` field.
  *
  * A state that the copy on the driver did not get, two states of one name, and a state of a
  * function without keys are a [[KeystateException]], `KEYSTATE_DECLARATION`. Flink allows getting
  * a state at any time.
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

  /** A sorted map for each key, ordered by the map's own keys. */
  def getSortedMapState[K, V](descriptor: SortedMapStateDescriptor[K, V]): SortedMapState[K, V] =
    provide(descriptor)

  /** For each key, the added values reduced by the descriptor's function. */
  def getReducingState[T](descriptor: ReducingStateDescriptor[T]): ReducingState[T] =
    provide(descriptor)

  /** For each key, the added values aggregated by the descriptor's function. */
  def getAggregatingState[IN, ACC, OUT](
      descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
  ): AggregatingState[IN, OUT] = provide(descriptor)

  /** For each key, the added values folded by the descriptor's function. */
  def getFoldingState[T, ACC](descriptor: FoldingStateDescriptor[T, ACC]): FoldingState[T, ACC] =
    provide(descriptor)

  /** The state of a descriptor of any kind. */
  protected[keystate] def provide[S <: State](descriptor: StateDescriptor[S]): S
}

/** The context that a function gets in `open`. Get every state in `open`, unconditionally: the
  * query is planned with the states that a copy of the function gets in `open` on the driver.
  */
trait RuntimeContext extends KeyedStateStore {

  /** The operator's name, or "keyed process" if it has none. */
  def getTaskName: String

  /** The subtask's index, from 0. On the driver 0. */
  def getIndexOfThisSubtask: Int

  /** The number of subtasks, which may change at a restart. On the driver 1. */
  def getNumberOfParallelSubtasks: Int

  /** The number of key groups, and so the highest possible number of subtasks. On the driver 1. */
  def getMaxNumberOfParallelSubtasks: Int

  /** The number of this attempt at its Spark task, from 0. */
  def getAttemptNumber: Int

  /** The key group of a key, from 0; a key's group never changes. On the driver 0.
    *
    * @param key
    *   the key as `getCurrentKey` returns it; in a function without `getCurrentKey`, the value of
    *   the one key column, or a Row
    */
  def getKeyGroup(key: Any): Int

  /** The function's own metrics. A source has none (`KEYSTATE_DECLARATION`), nor has a function
    * that created none when the query was planned.
    */
  def getMetricGroup: MetricGroup
}

/** Empty. `open` methods that were written for Flink take it. */
final class Configuration
