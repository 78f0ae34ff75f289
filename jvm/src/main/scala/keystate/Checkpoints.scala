package keystate

import java.io.{InputStream, OutputStream}
import java.util.{List => JList}

/** A function with operator state, which belongs to a subtask and not to a key. Mix it into a
  * function on a stream with or without keys; a function of broadcast elements can't have operator
  * state (`KEYSTATE_DECLARATION`).
  *
  * Every micro-batch is a checkpoint. Such a function runs in every subtask in every micro-batch,
  * even in a micro-batch without elements.
  */
trait CheckpointedFunction {

  /** Gets the operator states and reads their restored content. Called before `open` for every new
    * instance of the function: at the first start, and after every restart, rescale or failure.
    * Also called once on the driver, on a copy, with empty states, to find out which states there
    * are: get them unconditionally.
    */
  def initializeState(context: FunctionInitializationContext): Unit

  /** Writes the content of the checkpoint into the operator states. Called at the end of a
    * subtask's part of every micro-batch, before the micro-batch is committed. A batch query calls
    * it too, but does not keep the result.
    */
  def snapshotState(context: FunctionSnapshotContext): Unit
}

/** A function with one list of operator state. When the parallelism changes, the list is split as
  * [[OperatorStateStore.getListState]] describes. Mix it into a function or a source; it can't be
  * combined with [[CheckpointedFunction]]. It is called at the same times as a
  * [[CheckpointedFunction]].
  *
  * Elements are plain data: numbers, strings, bytes, dates and times, and options, sequences, maps,
  * tuples and case classes of these. Python and Scala read each other's elements.
  */
trait ListCheckpointed[T] {

  /** The state; a list of one element if it can't be split. An element that does not fit its type
    * is a [[KeystateException]], `KEYSTATE_STATE_TYPE`.
    *
    * @param checkpointId
    *   the id of the micro-batch
    * @param timestamp
    *   the micro-batch's time in milliseconds since the epoch
    */
  def snapshotState(checkpointId: Long, timestamp: Long): JList[T]

  /** Restores this subtask's part of the state, which may be empty. Called before `open` when an
    * earlier micro-batch left state. If Python stored an element that is not a T, a
    * [[KeystateException]] is thrown: `KEYSTATE_STATE_CHANGED`, or `KEYSTATE_PICKLE_REFUSED` for an
    * object of a Python class.
    */
  def restoreState(state: JList[T]): Unit

  /** The type of the elements. Override it if the type can't be found from the function's class: if
    * it is a type parameter of the class, or if the class is declared within a method.
    */
  def elementType: Option[TypeInformation[T]] = None
}

/** Receives completed checkpoints; mix it into a function. A function of broadcast elements can't
  * be a listener.
  */
trait CheckpointListener {

  /** Called after a micro-batch is in Spark's commit log and before the elements of the next one;
    * never for a micro-batch that is not in the log. As in Flink a call can be missing: after the
    * last micro-batch before a stop, a failure or a lost executor.
    *
    * @param checkpointId
    *   the id of the micro-batch
    */
  def notifyCheckpointComplete(checkpointId: Long): Unit
}

/** The context that a [[CheckpointedFunction]] gets when it starts. */
trait FunctionInitializationContext {

  /** Whether the subtask has state of an earlier micro-batch. False on the driver and in a batch
    * query.
    */
  def isRestored: Boolean

  /** The id of the micro-batch that wrote the state; None when nothing is restored. */
  def getRestoredCheckpointId: Option[Long]

  /** The operator states, with their restored elements if there are any. */
  def getOperatorStateStore: OperatorStateStore

  /** The keyed states, for a function on a keyed stream. Get them here, and use them in calls that
    * have a key.
    */
  def getKeyedStateStore: KeyedStateStore

  /** The raw streams of the subtask's key groups, by ascending group. They can be read in
    * `initializeState` only; a function without keys has none, `KEYSTATE_DECLARATION`.
    */
  def getRawKeyedStateInputs: Iterable[KeyGroupStatePartitionStreamProvider]

  /** The raw streams of the subtask. */
  def getRawOperatorStateInputs: Iterable[StatePartitionStreamProvider]
}

/** The context that a [[CheckpointedFunction]] gets for a checkpoint. */
trait FunctionSnapshotContext {

  /** The checkpoint's number, which is the id of its micro-batch. */
  def getCheckpointId: Long

  /** The micro-batch's time in milliseconds since the epoch. */
  def getCheckpointTimestamp: Long

  /** Takes the raw streams of the subtask's key groups. Streams that are not written again are not
    * kept. A function without keys has none, `KEYSTATE_DECLARATION`.
    */
  def getRawKeyedOperatorStateOutput: KeyedStateCheckpointOutputStream

  /** Takes the subtask's raw streams. Streams that are not written again are not kept. */
  def getRawOperatorStateOutput: OperatorStateCheckpointOutputStream
}

/** Gives a function its operator states, in `initializeState`. Every call of the function can use
  * them. Each micro-batch writes a whole list: keep it small.
  *
  * A descriptor with a time to live, two states of one name, and a state that the copy on the
  * driver did not get are a [[KeystateException]], `KEYSTATE_DECLARATION`.
  */
trait OperatorStateStore {

  /** A list. When the parallelism changes, its elements are split evenly, as by Flink's
    * `RoundRobinOperatorStateRepartitioner`; otherwise each subtask gets its own elements back.
    */
  def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T]

  /** A list that restores the elements of all subtasks in every subtask. A function with such a
    * list starts a new instance for each micro-batch.
    */
  def getUnionListState[T](descriptor: ListStateDescriptor[T]): ListState[T]
}

/** A stream of raw state that is restored. */
trait StatePartitionStreamProvider {

  /** The stream, from its first byte. */
  def getStream: InputStream
}

/** A key group's stream of raw state. */
trait KeyGroupStatePartitionStreamProvider extends StatePartitionStreamProvider {

  /** The key group, see [[RuntimeContext.getKeyGroup]]. */
  def getKeyGroupId: Int
}

/** Takes a subtask's raw streams, one after the other. When the parallelism changes, they are split
  * like the elements of a list.
  */
abstract class OperatorStateCheckpointOutputStream extends OutputStream {

  /** Starts the next stream. The first one needs no call. */
  def startNewPartition(): Unit
}

/** Takes the raw streams of a subtask's key groups; each stream moves with its group. Writing a
  * stream twice, for a group of another subtask, or without starting it is a [[KeystateException]],
  * `KEYSTATE_RAW_STREAM`.
  */
abstract class KeyedStateCheckpointOutputStream extends OutputStream {

  /** Starts a key group's stream. */
  def startNewKeyGroup(keyGroupId: Int): Unit

  /** The key groups of this subtask, in ascending order. */
  def getKeyGroupList: Iterable[Int]
}
