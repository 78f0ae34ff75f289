package keystate.backend.rocksdb

import java.util.Arrays

import keystate.backend.{BytesMap, HeapBudget}

/** Tells of most keys of a family that are not stored that they are not. It never does so of a key
  * that is stored.
  *
  * It knows the keys of a key group, or it does not and excludes nothing. To know them it has to
  * read them all. It does so once lookups of keys that were not stored have cost as much as that,
  * so it at most doubles what they cost; the lookups of all groups pay for one group after the
  * other. Then all keys that get stored are added. Removed keys stay.
  *
  * @param readKeys
  *   hands over all stored keys of a group
  */
private[keystate] final class FamilyFilter(
    memory: HeapBudget.Share,
    readKeys: (Int, Array[Byte] => Unit) => Unit
) {
  import FamilyFilter._

  // By group. Null for those whose keys are not known.
  private var filters = new Array[GrowingFilter](0)
  // The number of keys that lookups have paid for reading.
  private var paid = 0L

  def knows(group: Int): Boolean = filterOf(group) != null

  /** True if the key is surely not stored. */
  def excludes(group: Int, key: Array[Byte]): Boolean = {
    val filter = filterOf(group)
    filter != null && !filter.mayHave(BytesMap.hash64(key, 0, key.length))
  }

  /** Tells that a key was looked up that was not stored.
    *
    * @param stored
    *   how many keys of this group are
    */
  def missed(group: Int, stored: Long): Unit = if (!knows(group)) {
    paid += 1
    if (stored >= MinKeys && stored <= paid) {
      paid -= stored
      learn(group, stored)
    }
  }

  /** Tells, before a key is stored, that it will be.
    *
    * @param live
    *   how many keys of the group will be stored then
    */
  def add(group: Int, key: Array[Byte], live: Long): Unit = {
    val filter = filterOf(group)
    if (filter != null) {
      if (filter.isFull) makeRoom(group, filter, live)
      if (knows(group)) filter.add(BytesMap.hash64(key, 0, key.length))
    }
  }

  /** Tells that keys of a group may be stored of which it is not told. */
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
      // As many keys were added since, and so as many lookups spared, as are to be read again.
      forget(group)
      paid += live
    } else if (memory.take(BlockedBloomFilter.bytesFor(filter.capacity))) filter.grow()
    else if (filter.canOverfill) filter.overfill()
    else forget(group)
}

private object FamilyFilter {

  /** With fewer keys a group is as quickly asked, and the objects take more than the bits. */
  private final val MinKeys = 64

  /** It is made anew where it has so many times the keys that are stored. */
  private final val MaxDead = 2

  /** Up to as much again, from group to group another part of it, so that not all groups of a store
    * grow in the same batch.
    */
  private def spread(group: Int, stored: Long): Long =
    stored * (group * 0x9e3779b9 >>> 16) >>> 16
}
