package keystate

import scala.annotation.nowarn

/** Gives a function its keyed states. */
@nowarn("cat=deprecation")
trait KeyedStateStore {
  def getState[T](descriptor: ValueStateDescriptor[T]): ValueState[T]
  def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T]
  def getMapState[K, V](descriptor: MapStateDescriptor[K, V]): MapState[K, V]
  def getSortedMapState[K, V](descriptor: SortedMapStateDescriptor[K, V]): SortedMapState[K, V]
  def getReducingState[T](descriptor: ReducingStateDescriptor[T]): ReducingState[T]
  def getAggregatingState[IN, ACC, OUT](
      descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
  ): AggregatingState[IN, OUT]
  def getFoldingState[T, ACC](descriptor: FoldingStateDescriptor[T, ACC]): FoldingState[T, ACC]
}

/** What a function is told when it is opened. Get every state in `open`, unconditionally: a query is
  * planned with the states that `open` asks for.
  */
trait RuntimeContext extends KeyedStateStore {

  /** The operator's name. */
  def getTaskName: String

  /** From 0. */
  def getIndexOfThisSubtask: Int
  def getNumberOfParallelSubtasks: Int

  /** The number of key groups. */
  def getMaxNumberOfParallelSubtasks: Int
  def getAttemptNumber: Int
}

/** Empty; functions written for Flink take it in `open`. */
final class Configuration
