package org.apache.spark.sql.keystate.state

import keystate.backend.{
  EntryIterator, Expiry, GroupedKey, Layout, StateEntries, StoredKeys, TtlEntries, TtlSweep
}
import keystate.keygroup.KeyGroupRange
import org.apache.spark.sql.keystate.spec.StateSpec

/** The entries of one state, as its function reads and writes them: with the newest type, and
  * without expired entries. This class knows the state's family, so that nothing else needs the
  * backend itself.
  *
  * @param family
  *   the backend's id of the state
  */
private[keystate] final class FamilyEntries private (
    val family: Int,
    layout: Layout,
    stored: StateEntries,
    entries: StateEntries,
    expiring: Option[TtlEntries]
) {

  /** Whether entries have a time to live that can end in this task. */
  def expires: Boolean = expiring.isDefined

  def get(group: Int, key: Array[Byte]): Array[Byte] = entries.get(family, group, key)

  /** Sets the first `count` of `values` to what `StateEntries.multiGet` reads. */
  def multiGet(
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = entries.multiGet(family, groups, keys, values, count)

  def put(group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    entries.put(family, group, key, value)

  def remove(group: Int, key: Array[Byte]): Unit = entries.remove(family, group, key)

  def scan(group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    entries.scan(family, group, start, end)

  def scanReverse(group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    entries.scanReverse(family, group, start, end)

  /** Each key that has an entry that has not expired, with its group, as [[StoredKeys]] gives them.
    * Nothing is removed, and nothing counts as read.
    */
  def keys(maxParallelism: Int): Seq[(Int, Array[Byte])] = {
    val isExpired: Array[Byte] => Boolean = expiring.fold((_: Array[Byte]) => false)(_.isExpired _)
    StoredKeys.of(family, layout, stored, maxParallelism, isExpired)
  }

  /** Removes all entries of a key of a list or map. Returns how many there were. */
  def clear(group: Int, key: Array[Byte]): Long = {
    val found = scan(group, GroupedKey.prefix(key), null)
    try {
      var removed = 0L
      found.foreach { entry =>
        remove(group, entry.key)
        removed += 1
      }
      removed
    } finally found.close()
  }

  /** Says that an entry was used at this time. Nothing happens where entries do not expire. */
  def touch(group: Int, key: Array[Byte], time: Long): Unit =
    if (expiring.isDefined) expiring.get.touch(family, group, key, time)

  /** Whether an entry that is put now and used at `time` lives as long as this stored value. */
  def livesAsLong(time: Long, value: Array[Byte]): Boolean =
    expiring.isEmpty || expiring.get.isOf(time, value)

  /** Goes on with a sweep, see [[TtlSweep]]. */
  def sweep(sweep: TtlSweep, groups: KeyGroupRange, limit: Long): Unit =
    expiring.foreach(sweep.run(_, family, groups, limit))
}

private[keystate] object FamilyEntries {

  /** @param expiry
    *   decides which entries have expired in this task; None if the state has no time to live
    */
  def apply(
      state: StateSpec,
      family: Int,
      backend: StateEntries,
      expiry: Option[Expiry] = None
  ): FamilyEntries = {
    val current = EvolvedEntries.of(state, backend)
    val expiring = expiry.map(new TtlEntries(current, _))
    new FamilyEntries(family, state.layout, backend, expiring.getOrElse(current), expiring)
  }
}
