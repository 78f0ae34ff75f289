package keystate.backend.rocksdb

import java.util.{Arrays, NavigableMap, TreeMap}

import keystate.backend.{BytesMap, BytewiseOrder, KeySort}

/** The changes to a group of ordered entries.
  *
  * They start in a hash table. Most range reads want the entries of one key, which often has no
  * changes yet: Spark's session windows read a key's sessions before they write them. So the table
  * also knows the first bytes of the changed keys. Once a range contains changes, or many reads
  * want all changes, the changes move to a sorted map until the transaction ends.
  */
private[rocksdb] final class SortedChanges extends GroupChanges {
  import SortedChanges._

  private var hashed = new BytesMap[PendingChange]
  private var sorted: TreeMap[Array[Byte], PendingChange] = _
  private var beginnings = List.empty[Beginnings]
  private var askedForAll = false

  override def get(key: Array[Byte]): PendingChange =
    if (sorted == null) hashed.get(key)
    else sorted.get(key)

  override def put(key: Array[Byte], change: PendingChange): Unit =
    if (sorted != null) sorted.put(key, change): Unit
    else if (hashed.put(key, change) == null)
      beginnings.foreach(_.add(key))

  override def remove(key: Array[Byte]): Unit =
    if (sorted == null) hashed.remove(key): Unit
    else sorted.remove(key): Unit

  override def foreachNew(f: Array[Byte] => Unit): Unit = {
    def give(key: Array[Byte], change: PendingChange): Unit =
      if (PendingChange.isNew(change)) f(key)
    if (sorted == null) hashed.foreach(give) else sorted.forEach(give(_, _))
  }

  override def range(start: Array[Byte], end: Array[Byte], reverse: Boolean): ChangesCursor =
    if (sorted == null && hashed.size == 0) GroupChanges.Empty
    else if (sorted == null && start == null && end == null && !reverse && !askedForAll) {
      askedForAll = true
      all
    } else if (sorted == null && isEmpty(start, end)) GroupChanges.Empty
    else {
      if (sorted == null) sort()
      BytewiseOrder.range(sorted, start, end, reverse) match {
        case null => GroupChanges.Empty
        case view => new NavigableCursor(view)
      }
    }

  override def all: ChangesCursor =
    if (sorted == null) KeysCursor.ofChanges(hashed, get(_)) else new SortedCursor(sorted)

  /** Whether the range consists of all keys with some prefix, and no change has a key with this
    * prefix.
    */
  private def isEmpty(start: Array[Byte], end: Array[Byte]): Boolean =
    start != null && end != null && Arrays.equals(BytewiseOrder.after(start), end) && {
      beginnings.find(_.length == start.length) match {
        case Some(known) => !known.has(start)
        case None if beginnings.length == MostLengths => false
        case None =>
          val known = new Beginnings(start.length)
          hashed.foreach((key, _) => known.add(key))
          beginnings ::= known
          !known.has(start)
      }
    }

  private def sort(): Unit = {
    val keys = hashed.copyKeys()
    KeySort.sort(keys, keys.length)
    val map = new TreeMap[Array[Byte], PendingChange](BytewiseOrder.comparator)
    keys.foreach(key => map.put(key, get(key)))
    sorted = map
    hashed = null
    beginnings = Nil
  }
}

private object SortedChanges {

  /** When keys have more different lengths than this, the changes move to the sorted map. */
  private final val MostLengths = 4

  /** The first bytes of keys, as hashes of 64 bits. If two hashes were equal, a key without changes
    * would seem to have some, which only costs time. The hash stays when its change is removed.
    */
  private final class Beginnings(val length: Int) {
    private var slots = new Array[Long](16)
    private var count = 0

    def add(key: Array[Byte]): Unit = if (key.length >= length) {
      if (2 * (count + 1) > slots.length) {
        val old = slots
        slots = new Array[Long](2 * old.length)
        old.foreach(hash => if (hash != 0) slots(slotOf(hash)) = hash)
      }
      val hash = hashOf(key)
      val slot = slotOf(hash)
      if (slots(slot) == 0) {
        slots(slot) = hash
        count += 1
      }
    }

    def has(beginning: Array[Byte]): Boolean = slots(slotOf(hashOf(beginning))) != 0

    private def hashOf(key: Array[Byte]): Long = {
      val hash = BytesMap.hash64(key, 0, length)
      if (hash == 0) 1 else hash
    }

    /** The slot where the hash is or belongs. */
    private def slotOf(hash: Long): Int = {
      val mask = slots.length - 1
      var slot = hash.toInt & mask
      while (slots(slot) != 0 && slots(slot) != hash) slot = slot + 1 & mask
      slot
    }
  }

  private final class SortedCursor(changes: TreeMap[Array[Byte], PendingChange])
      extends ChangesCursor {
    private val entries = changes.entrySet.iterator
    private var entry = next()
    override def key: Array[Byte] = if (entry == null) null else entry.getKey
    override def change: PendingChange = entry.getValue
    override def advance(): Unit = entry = next()
    private def next() = if (entries.hasNext) entries.next() else null
  }

  /** Finds its place by its key each time, so that the map may change meanwhile. */
  private final class NavigableCursor(view: NavigableMap[Array[Byte], PendingChange])
      extends ChangesCursor {
    private var entry = view.firstEntry
    override def key: Array[Byte] = if (entry == null) null else entry.getKey
    override def change: PendingChange = entry.getValue
    override def advance(): Unit = entry = view.higherEntry(entry.getKey)
  }
}
