package keystate

import java.io.{InputStream, OutputStream}
import java.util.{List => JList}

/** A function with operator state, which belongs to a subtask and not to a key. Mix it into a
  * function on a keyed stream or on one without keys; a function of broadcast elements can't have
  * operator state (`KEYSTATE_DECLARATION`).
  *
  * Every micro-batch is a checkpoint. Such a function runs in every subtask in every micro-batch,
  * in those without elements too.
  */
trait CheckpointedFunction {

  /** Gets the operator states, and takes over what they hold when they are restored. Called before
    * `open` whenever an instance of the function begins: at the first start, and after every
    * restart, rescale or failure. Also called once on the driver, on a copy, with empty states, to
    * learn which states there are: get them unconditionally.
    */
  def initializeState(context: FunctionInitializationContext): Unit

  /** Writes into the operator states what has to be in the checkpoint. Called at the end of a
    * subtask's part of every micro-batch, before that is committed. A batch query calls it too;
    * what it writes there is not kept.
    */
  def snapshotState(context: FunctionSnapshotContext): Unit
}

/** A function with one list of operator state, which is dealt out as by
  * [[OperatorStateStore.getListState]]. Mix it into a function or a source; it can't be a
  * [[CheckpointedFunction]] too. It is called when a [[CheckpointedFunction]] is.
  *
  * Elements are plain data: numbers, strings, bytes, dates and times, and options, sequences, maps,
  * tuples and case classes of these. Python reads them as such, and the other way round.
  */
trait ListCheckpointed[T] {

  /** The state: a list of one element if it can't be spread. An element that does not fit its type
    * is a [[KeystateException]], `KEYSTATE_STATE_TYPE`.
    *
    * @param checkpointId
    *   the id of the micro-batch
    * @param timestamp
    *   the micro-batch's time in milliseconds since the epoch
    */
  def snapshotState(checkpointId: Long, timestamp: Long): JList[T]

  /** Takes over this subtask's part of the state, which may be empty. Called before `open` when
    * there is state of an earlier micro-batch. An element that Python stored and that is no T is a
    * [[KeystateException]]: `KEYSTATE_STATE_CHANGED`, or `KEYSTATE_PICKLE_REFUSED` for an object of
    * a Python class.
    */
  def restoreState(state: JList[T]): Unit

  /** The type of the elements, if it can't be found in the function's class: because that has it as
    * a type parameter, or is declared within a method.
    */
  def elementType: Option[TypeInformation[T]] = None
}

/** Told of checkpoints that count; to be mixed into a function. One of broadcast elements can't be
  * a listener.
  */
trait CheckpointListener {

  /** Called once a micro-batch is in Spark's commit log, before the elements of the next one; never
    * for one that is not. As in Flink a call can be missing: after the last micro-batch before a
    * stop, a failure or a lost executor.
    *
    * @param checkpointId
    *   the id of the micro-batch
    */
  def notifyCheckpointComplete(checkpointId: Long): Unit
}

/** What a [[CheckpointedFunction]] finds when it begins. */
trait FunctionInitializationContext {

  /** Whether the subtask has state of an earlier micro-batch. False on the driver and in a batch
    * query.
    */
  def isRestored: Boolean

  /** The id of the micro-batch that the state was made in; None when nothing is restored. */
  def getRestoredCheckpointId: Option[Long]

  /** The operator states, with their elements if they are restored. */
  def getOperatorStateStore: OperatorStateStore

  /** The keyed states, for a function on a keyed stream. They can be got here, and used in the
    * calls that have a key.
    */
  def getKeyedStateStore: KeyedStateStore

  /** The raw streams of the subtask's key groups, by ascending group. Can be read in
    * `initializeState` only; without keys there are none, `KEYSTATE_DECLARATION`.
    */
  def getRawKeyedStateInputs: Iterable[KeyGroupStatePartitionStreamProvider]

  /** The raw streams of the subtask. */
  def getRawOperatorStateInputs: Iterable[StatePartitionStreamProvider]
}

/** What a [[CheckpointedFunction]] is told of the checkpoint that is taken. */
trait FunctionSnapshotContext {

  /** The checkpoint's number, which is the id of its micro-batch. */
  def getCheckpointId: Long

  /** The micro-batch's time in milliseconds since the epoch. */
  def getCheckpointTimestamp: Long

  /** Takes the raw streams of the subtask's key groups. What is not written is not kept. Without keys
    * there are none, `KEYSTATE_DECLARATION`.
    */
  def getRawKeyedOperatorStateOutput: KeyedStateCheckpointOutputStream

  /** Takes the subtask's raw streams. What is not written is not kept. */
  def getRawOperatorStateOutput: OperatorStateCheckpointOutputStream
}

/** Gives a function its operator states, in `initializeState`. They can be used in every call of
  * the function. A whole list is written with every micro-batch: keep it small.
  *
  * A descriptor with a time to live, two states of one name, and a state that the copy on the
  * driver did not ask for are a [[KeystateException]], `KEYSTATE_DECLARATION`.
  */
trait OperatorStateStore {

  /** A list whose elements are dealt out evenly when the parallelism changes, as by Flink's
    * `RoundRobinOperatorStateRepartitioner`; else each subtask gets its own back.
    */
  def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T]

  /** A list of which every subtask gets the elements of all subtasks when it is restored. A function
    * that has one begins anew with each micro-batch.
    */
  def getUnionListState[T](descriptor: ListStateDescriptor[T]): ListState[T]
}

/** A stream of raw state that a function is restored with. */
trait StatePartitionStreamProvider {

  /** The stream, from its beginning. */
  def getStream: InputStream
}

/** A key group's stream of raw state. */
trait KeyGroupStatePartitionStreamProvider extends StatePartitionStreamProvider {

  /** The key group: see [[RuntimeContext.getKeyGroup]]. */
  def getKeyGroupId: Int
}

/** Takes a subtask's raw streams, one after the other. They are dealt out like the elements of a list
  * when the parallelism changes.
  */
abstract class OperatorStateCheckpointOutputStream extends OutputStream {

  /** Begins another stream. The first one begins by itself. */
  def startNewPartition(): Unit
}

/** Takes the raw streams of a subtask's key groups, each of which goes with its group. A stream that
  * is begun twice, for a group of another subtask or not at all is a [[KeystateException]],
  * `KEYSTATE_RAW_STREAM`.
  */
abstract class KeyedStateCheckpointOutputStream extends OutputStream {

  /** Begins a key group's stream. */
  def startNewKeyGroup(keyGroupId: Int): Unit

  /** The key groups of this subtask, in their order. */
  def getKeyGroupList: Iterable[Int]
}
