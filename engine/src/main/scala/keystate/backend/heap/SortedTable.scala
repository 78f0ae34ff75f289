package keystate.backend.heap

import java.util.{Arrays, TreeMap}

import keystate.backend.{
  BytesMap, BytewiseOrder, ChangeSink, Entry, EntryIterator, GroupedKey, KeySort
}

/** Entries in bytewise order, with the changes of the transaction: of each changed entry the value
  * it had before, to undo the change, and the one it has, to write it.
  */
private[heap] sealed abstract class SortedTable extends KeyGroupTable {
  import SortedTable.Changed

  private var changes = new BytesMap[Changed]
  private var count = 0
  private var entryBytes = 0L

  /** Sets the value; returns the one before, or null. */
  protected def set(key: Array[Byte], value: Array[Byte]): Array[Byte]

  /** Removes the entry; returns its value, or null when there was none. */
  protected def unset(key: Array[Byte]): Array[Byte]

  /** Bytes an entry takes besides its key and value: array headers and tree node. */
  protected def entryOverhead: Int

  override def size: Int = count
  override def bytes: Long = entryBytes
  override def changeCount: Int = changes.size

  override def put(key: Array[Byte], value: Array[Byte]): Unit = {
    val old = replace(key, value)
    val hash = BytesMap.hash(key, key.length)
    if (!changes.putIfAbsent(key, hash, new Changed(old, value)))
      changes.get(key, key.length, hash).now = value
  }

  override def remove(key: Array[Byte]): Boolean = {
    val old = replace(key, null)
    if (old != null) {
      val hash = BytesMap.hash(key, key.length)
      val changed = changes.get(key, key.length, hash)
      if (changed == null) changes.put(key, hash, new Changed(old, null)): Unit
      // Made and removed in the same transaction: no change.
      else if (changed.before == null) changes.remove(key, key.length, hash): Unit
      else changed.now = null
    }
    old != null
  }

  override def load(
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Unit = {
    replace(
      Arrays.copyOfRange(key, keyStart, keyStart + keyLength),
      if (value == null) null else Arrays.copyOfRange(value, valueStart, valueStart + valueLength)
    )
    ()
  }

  override def writeChanges(family: Int, group: Int, sink: ChangeSink): Unit = {
    val keys = new Array[Array[Byte]](changes.size)
    val changed = new Array[Changed](changes.size)
    var n = 0
    changes.foreach { (key, change) =>
      keys(n) = key
      changed(n) = change
      n += 1
    }
    KeySort.order(keys).foreach(i => sink.add(family, group, keys(i), changed(i).now))
  }

  override def changesCommitted(): Unit = if (changes.size > 0) changes = new BytesMap[Changed]

  override def rollback(): Unit = {
    changes.foreach((key, change) => replace(key, change.before): Unit)
    changesCommitted()
  }

  private def replace(key: Array[Byte], value: Array[Byte]): Array[Byte] = {
    val old = if (value == null) unset(key) else set(key, value)
    if (old != null) {
      count -= 1
      entryBytes -= key.length + old.length + entryOverhead
    }
    if (value != null) {
      count += 1
      entryBytes += key.length + value.length + entryOverhead
    }
    old
  }
}

private[heap] object SortedTable {
  type SortedEntries = TreeMap[Array[Byte], Array[Byte]]

  /** Bytes that a key with entries takes in a hash table, with its sorted map but without itself. */
  private[heap] final val KeyOverhead = 100

  /** An entry's value before the transaction and now; null where there is none. */
  private final class Changed(val before: Array[Byte], var now: Array[Byte])
}

/** A sorted map, and a hash table of the entries that were put since the last range read that might
  * contain them. Timers suit this: most are put for a later time, and then all timers of one time
  * are read and removed. Adding entries to the map in sorted order costs less than adding them one
  * by one.
  */
private[heap] final class OrderedTable extends SortedTable {
  // No key is in both.
  private val entries = new SortedTable.SortedEntries(BytewiseOrder.comparator)
  private var fresh = new BytesMap[Array[Byte]]
  // Fresh keys are in between, both included.
  private var least: Array[Byte] = _
  private var greatest: Array[Byte] = _

  override def get(key: Array[Byte]): Array[Byte] = {
    val value = freshValue(key)
    if (value != null || entries.isEmpty) value else entries.get(key)
  }

  override protected def set(key: Array[Byte], value: Array[Byte]): Array[Byte] = {
    val old = if (entries.isEmpty || freshValue(key) != null) null else entries.replace(key, value)
    if (old != null) old
    else {
      if (least == null || isBefore(key, least)) least = key
      if (greatest == null || isBefore(greatest, key)) greatest = key
      fresh.put(key, value)
    }
  }

  override protected def unset(key: Array[Byte]): Array[Byte] = {
    val old =
      if (fresh.size == 0) null else fresh.remove(key)
    if (old != null || entries.isEmpty) old else entries.remove(key)
  }

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator = {
    if (fresh.size > 0 && (end == null || isBefore(least, end)) && !isBefore(greatest, start))
      settle()
    new SortedEntriesIterator(BytewiseOrder.range(entries, start, end, reverse))
  }

  override protected def entryOverhead: Int = 80

  private def freshValue(key: Array[Byte]): Array[Byte] =
    if (fresh.size == 0) null else fresh.get(key)

  private def isBefore(key: Array[Byte], other: Array[Byte]): Boolean =
    other != null && Arrays.compareUnsigned(key, other) < 0

  /** Puts the fresh entries into the map. */
  private def settle(): Unit = {
    val keys = fresh.copyKeys()
    KeySort.sort(keys, keys.length)
    try keys.foreach(key => entries.put(key, freshValue(key)))
    catch {
      case e: Throwable =>
        // Out of memory: they stay where they were.
        keys.foreach(entries.remove(_))
        throw e
    }
    fresh = new BytesMap[Array[Byte]]
    least = null
    greatest = null
  }
}

/** A hash table of keys, each with a sorted map of its entries, by their user keys. A key without
  * entries has no map.
  */
private[heap] final class GroupedTable extends SortedTable {
  import SortedTable.{KeyOverhead, SortedEntries}

  private val byKey = new BytesMap[SortedEntries]
  private var keyBytes = 0L

  override def bytes: Long = super.bytes + keyBytes

  override def get(key: Array[Byte]): Array[Byte] = {
    val entries = entriesOf(key)
    if (entries == null) null else entries.get(key)
  }

  override protected def set(key: Array[Byte], value: Array[Byte]): Array[Byte] = {
    val length = GroupedKey.userKeyOffset(key)
    val prefixHash = BytesMap.hash(key, length)
    var entries = byKey.get(key, length, prefixHash)
    if (entries == null) {
      entries = new SortedEntries(BytewiseOrder.comparator)
      byKey.put(Arrays.copyOf(key, length), prefixHash, entries)
      keyBytes += length + KeyOverhead
    }
    entries.put(key, value)
  }

  override protected def unset(key: Array[Byte]): Array[Byte] = {
    val entries = entriesOf(key)
    if (entries == null) null
    else {
      val old = entries.remove(key)
      if (entries.isEmpty) {
        val length = GroupedKey.userKeyOffset(key)
        byKey.remove(key, length, BytesMap.hash(key, length))
        keyBytes -= length + KeyOverhead
      }
      old
    }
  }

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    if (start == null && end == null) new AllKeysIterator(reverse)
    else {
      val entries = entriesOf(if (start == null) end else start)
      if (entries == null) SortedEntriesIterator.empty
      else new SortedEntriesIterator(BytewiseOrder.range(entries, start, end, reverse))
    }

  override protected def entryOverhead: Int = 80

  private def entriesOf(key: Array[Byte]): SortedEntries = {
    val length = GroupedKey.userKeyOffset(key)
    byKey.get(key, length, BytesMap.hash(key, length))
  }

  private final class AllKeysIterator(reverse: Boolean) extends EntryIterator {
    private lazy val prefixes = {
      val copy = byKey.copyKeys()
      Arrays.sort(
        copy,
        if (reverse) BytewiseOrder.comparator.reversed else BytewiseOrder.comparator
      )
      copy.iterator
    }
    private var current: EntryIterator = SortedEntriesIterator.empty

    override def hasNext: Boolean = {
      while (!current.hasNext && prefixes.hasNext) {
        val entries = entriesOf(prefixes.next())
        if (entries != null)
          current = new SortedEntriesIterator(BytewiseOrder.range(entries, null, null, reverse))
      }
      current.hasNext
    }
    override def next(): Entry = if (hasNext) current.next() else Iterator.empty.next()
    override def close(): Unit = ()
  }
}
