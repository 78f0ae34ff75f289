package keystate

/** A function with operator state, which belongs to a subtask and not to a key; to be mixed into a
  * function, keyed or not.
  */
trait CheckpointedFunction {

  /** Gets the operator states, and takes over what they hold when they are restored. Called before
    * `open` whenever an instance of the function begins, and once on the driver, on a copy, to learn
    * which states it has: get them unconditionally.
    */
  def initializeState(context: FunctionInitializationContext): Unit

  /** Writes into the operator states what has to be in the checkpoint. Called at the end of a
    * subtask's part of every micro-batch, before that is committed.
    */
  def snapshotState(context: FunctionSnapshotContext): Unit
}

/** Told of checkpoints that count; to be mixed into a function. */
trait CheckpointListener {

  /** Called once a batch is in the commit log, when the next one begins; a call can be missing after
    * a failure.
    */
  def notifyCheckpointComplete(checkpointId: Long): Unit
}

trait FunctionInitializationContext {

  /** Whether there is state of an earlier run. */
  def isRestored: Boolean

  /** The checkpoint that the state is from. */
  def getRestoredCheckpointId: Option[Long]

  /** The operator states, with their elements if they are restored. */
  def getOperatorStateStore: OperatorStateStore

  /** The keyed states, of a function on a keyed stream. */
  def getKeyedStateStore: KeyedStateStore
}

trait FunctionSnapshotContext {

  /** The checkpoint's number, that of its micro-batch. */
  def getCheckpointId: Long

  /** Its time in milliseconds since the epoch. */
  def getCheckpointTimestamp: Long
}

/** Gives a function its operator states. */
trait OperatorStateStore {

  /** A list whose elements are dealt out evenly when the parallelism changes. */
  def getListState[T](descriptor: ListStateDescriptor[T]): ListState[T]

  /** A list of which every subtask gets the elements of all when it is restored. */
  def getUnionListState[T](descriptor: ListStateDescriptor[T]): ListState[T]
}
