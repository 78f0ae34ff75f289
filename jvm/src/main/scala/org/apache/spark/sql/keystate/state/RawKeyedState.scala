package org.apache.spark.sql.keystate.state

import java.util.Arrays

import keystate.backend.KeyedStateBackend
import keystate.keygroup.KeyGroupRange

/** The raw keyed state of a subtask: a stream of bytes for a key group, an entry of that group. So it
  * goes with the group when the parallelism changes.
  *
  * @param groups
  *   the key groups of the subtask
  */
private[keystate] final class RawKeyedState(
    family: Int,
    backend: KeyedStateBackend,
    groups: KeyGroupRange
) {
  import RawKeyedState._

  /** The first stream of this group or a later one, with its group. */
  def next(from: Int): Option[(Int, Array[Byte])] =
    (math.max(from, groups.first) to groups.last).iterator
      .map(group => (group, backend.get(family, group, Key)))
      .find(_._2 != null)

  /** Takes streams by group in place of all that there are. Those that did not change are not written
    * again.
    */
  def replace(byGroup: Map[Int, Array[Byte]]): Unit =
    (groups.first to groups.last).foreach { group =>
      val old = backend.get(family, group, Key)
      byGroup.get(group) match {
        case Some(stream) =>
          if (!Arrays.equals(old, stream)) backend.put(family, group, Key, stream)
        case None => if (old != null) backend.remove(family, group, Key)
      }
    }
}

private[keystate] object RawKeyedState {
  private val Key = Array.emptyByteArray
}
