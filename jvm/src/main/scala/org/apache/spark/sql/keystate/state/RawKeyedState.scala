package org.apache.spark.sql.keystate.state

import java.util.Arrays

import keystate.backend.KeyedStateBackend
import keystate.keygroup.KeyGroupRange

/** The raw keyed state of a subtask: one stream of bytes for each key group that has one, stored as
  * an entry of that group. So it moves with the group when the number of partitions changes.
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

  /** The key groups of the subtask. */
  def keyGroups: Range = groups.first to groups.last

  /** The first stream of this group or a later one, with its group. None if there is none. */
  def next(from: Int): Option[(Int, Array[Byte])] =
    (math.max(from, groups.first) to groups.last).iterator
      .map(group => (group, backend.get(family, group, Key)))
      .find(_._2 != null)

  /** Replaces all streams by these, by group. A stream that did not change is not written again. */
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
