package keystate.backend.heap

import java.util.{Arrays, TreeMap}

import keystate.backend.{
  BytesMap, BytewiseOrder, ChangeSink, Entry, EntryIterator, GroupedKey, KeySort
}

/** Entries in bytewise order, with an undo log of the transaction: the first change of an entry
  * notes the value it had before. The keys of the log are the changed entries.
  */
private[heap] sealed abstract class SortedTable extends KeyGroupTable {
  import SortedTable.Absent

  private var undo = new BytesMap[Array[Byte]]
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
  override def changeCount: Int = undo.size

  override def put(key: Array[Byte], value: Array[Byte]): Unit = {
    val old = replace(key, value)
    undo.putIfAbsent(key, BytesMap.hash(key, key.length), if (old == null) Absent else old): Unit
  }

  override def remove(key: Array[Byte]): Unit = {
    val old = replace(key, null)
    if (old != null) {
      val hash = BytesMap.hash(key, key.length)
      // Made and removed in the same transaction: no change.
      if (!undo.putIfAbsent(key, hash, old) && (undo.get(key, key.length, hash) eq Absent))
        undo.remove(key, key.length, hash)
    }
    ()
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
    val keys = undo.copyKeys()
    KeySort.sort(keys, keys.length)
    val found = valuesOf(keys)
    keys.foreach(key => sink.add(family, group, key, found(key)))
  }

  /** Finds the values of keys, which it is asked for in their order. */
  protected def valuesOf(keys: Array[Array[Byte]]): Array[Byte] => Array[Byte] = get

  override def changesCommitted(): Unit = if (undo.size > 0) undo = new BytesMap[Array[Byte]]

  override def rollback(): Unit = {
    undo.foreach { (key, old) =>
      replace(key, if (old eq Absent) null else old): Unit
    }
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

  /** A search takes as long as going along so many entries, or longer. */
  private[heap] final val ManySearches = 8

  /** Stands in the undo log for "there was no entry"; compared by reference. */
  private val Absent = new Array[Byte](0)
}

/** One sorted map of all entries. */
private[heap] final class OrderedTable extends SortedTable {
  import SortedTable.ManySearches

  private val entries = new SortedTable.SortedEntries(BytewiseOrder.comparator)

  override def get(key: Array[Byte]): Array[Byte] = entries.get(key)
  override protected def set(key: Array[Byte], value: Array[Byte]): Array[Byte] =
    entries.put(key, value)
  override protected def unset(key: Array[Byte]): Array[Byte] = entries.remove(key)

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    new SortedEntriesIterator(BytewiseOrder.range(entries, start, end, reverse))

  override protected def entryOverhead: Int = 80

  override protected def valuesOf(keys: Array[Array[Byte]]): Array[Byte] => Array[Byte] =
    if (keys.length <= entries.size / ManySearches) get else along(keys.head)

  /** Goes along the entries, from the first key on, instead of searching for each. */
  private def along(first: Array[Byte]): Array[Byte] => Array[Byte] = {
    val rest = entries.tailMap(first, true).entrySet.iterator
    var entry = if (rest.hasNext) rest.next() else null
    key => {
      var order = if (entry == null) 1 else BytewiseOrder.comparator.compare(entry.getKey, key)
      while (order < 0) {
        entry = if (rest.hasNext) rest.next() else null
        order = if (entry == null) 1 else BytewiseOrder.comparator.compare(entry.getKey, key)
      }
      if (order == 0) entry.getValue else null
    }
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

  /** Entries of one key follow each other: it is looked for once. */
  override protected def valuesOf(keys: Array[Array[Byte]]): Array[Byte] => Array[Byte] = {
    var last = Array.emptyByteArray
    var length = 0
    var entries: SortedEntries = null
    key => {
      if (length == 0 || !isPrefix(last, length, key)) {
        last = key
        length = GroupedKey.userKeyOffset(key)
        entries = entriesOf(key)
      }
      if (entries == null) null else entries.get(key)
    }
  }

  private def isPrefix(prefix: Array[Byte], length: Int, key: Array[Byte]): Boolean =
    key.length >= length && Arrays.equals(prefix, 0, length, key, 0, length)

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
