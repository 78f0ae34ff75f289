package keystate

import java.io.{InputStream, OutputStream}

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
