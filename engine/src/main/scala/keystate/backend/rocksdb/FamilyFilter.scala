package keystate.backend.rocksdb

import java.util.Arrays

import keystate.backend.{BytesMap, HeapBudget}

/** Recognises most keys of a family that are not stored. It never excludes a stored key.
  *
  * For each key group the filter either has all stored keys, or excludes nothing. To fill the
  * filter, all keys of the group must be read. That happens once lookups of missing keys have cost
  * as much as this read would, so the filter at most doubles the cost of these lookups; the lookups
  * of all groups pay for one group after the other. From then on every key that is stored is added.
  * Removed keys stay in the filter.
  *
  * @param readKeys
  *   passes on all stored keys of a group
  */
private[keystate] final class FamilyFilter(
    memory: HeapBudget.Share,
    readKeys: (Int, Array[Byte] => Unit) => Unit
) {
  import FamilyFilter._

  // The filters by group; null for a group without a filter.
  private var filters = new Array[GrowingFilter](0)
  // The number of keys that lookups have paid for reading.
  private var paid = 0L

  def knows(group: Int): Boolean = filterOf(group) != null

  /** True if the key is surely not stored. */
  def excludes(group: Int, key: Array[Byte]): Boolean = {
    val filter = filterOf(group)
    filter != null && !filter.mayHave(BytesMap.hash64(key, 0, key.length))
  }

  /** Reports a lookup of a key that was not stored.
    *
    * @param stored
    *   the number of stored keys in this group
    */
  def missed(group: Int, stored: Long): Unit = if (!knows(group)) {
    paid += 1
    if (stored >= MinKeys && stored <= paid) {
      paid -= stored
      learn(group, stored)
    }
  }

  /** Adds a key before it is stored.
    *
    * @param live
    *   the number of stored keys in the group after that
    */
  def add(group: Int, key: Array[Byte], live: Long): Unit = {
    val filter = filterOf(group)
    if (filter != null) {
      if (filter.isFull) makeRoom(group, filter, live)
      if (knows(group)) filter.add(BytesMap.hash64(key, 0, key.length))
    }
  }

  /** Marks a group as incomplete: it may hold keys that were never added to this filter. */
  def forget(group: Int): Unit = if (knows(group)) {
    memory.giveBack(filters(group).bytes)
    filters(group) = null
  }

  def close(): Unit = filters.indices.foreach(forget)

  private def filterOf(group: Int): GrowingFilter =
    if (group < filters.length) filters(group) else null

  /** Reads the keys of a group, if there is memory for its filter. */
  private def learn(group: Int, stored: Long): Unit =
    Seq(stored + spread(group, stored), stored)
      .find(capacity => memory.take(BlockedBloomFilter.bytesFor(capacity)))
      .foreach { capacity =>
        val filter = new GrowingFilter(capacity)
        try readKeys(group, key => filter.add(BytesMap.hash64(key, 0, key.length)))
        catch {
          case e: Throwable =>
            memory.giveBack(filter.bytes)
            throw e
        }
        if (group >= filters.length) filters = Arrays.copyOf(filters, group + 1)
        filters(group) = filter
      }

  private def makeRoom(group: Int, filter: GrowingFilter, live: Long): Unit =
    if (filter.size >= MaxDead * live || !filter.canGrow) {
      // At least as many keys were added since, and so as many lookups saved, as must be read
      // again.
      forget(group)
      paid += live
    } else if (memory.take(BlockedBloomFilter.bytesFor(filter.capacity))) filter.grow()
    else if (filter.canOverfill) filter.overfill()
    else forget(group)
}

private object FamilyFilter {

  /** Below this number of keys a lookup is as fast without a filter, and the filter's objects take
    * more memory than its bits.
    */
  private final val MinKeys = 64

  /** A filter is rebuilt when it has this many times the number of stored keys. */
  private final val MaxDead = 2

  /** The count plus up to 100 %, a different share for each group, so that the filters of a store's
    * groups do not all grow in the same batch.
    */
  private def spread(group: Int, stored: Long): Long =
    stored * (group * 0x9e3779b9 >>> 16) >>> 16
}
