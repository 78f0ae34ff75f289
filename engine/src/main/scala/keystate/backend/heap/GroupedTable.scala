package keystate.backend.heap

import java.util.Arrays

import scala.collection.mutable

import keystate.backend.{
  BytesMap, BytewiseOrder, ChangeSink, Entry, EntryIterator, GroupedKey, KeySort
}

/** A hash table of keys, each with its entries by their user keys. A key without entries is not in
  * it, except for one whose last entry the transaction has removed.
  */
private[heap] final class GroupedTable extends KeyGroupTable {
  private val byKey = new BytesMap[KeyEntries]
  private val changed = new mutable.ArrayBuffer[KeyEntries](0)
  private var count = 0
  private var keyBytes = 0L

  override def size: Int = count
  override def bytes: Long = keyBytes
  override def changeCount: Int = {
    var sum = 0
    var i = 0
    while (i < changed.length) {
      sum += changed(i).changeCount
      i += 1
    }
    sum
  }

  override def get(key: Array[Byte]): Array[Byte] = {
    val own = entriesOf(key)
    if (own == null) null else own.get(key)
  }

  override def put(key: Array[Byte], value: Array[Byte]): Unit = {
    val length = GroupedKey.userKeyOffset(key)
    val hash = BytesMap.hash(key, length)
    var own = byKey.get(key, length, hash)
    if (own == null) {
      own = new KeyEntries(Arrays.copyOf(key, length))
      byKey.put(own.prefix, hash, own)
      keyBytes += own.bytes
    }
    val before = own.bytes
    if (own.beginChange()) changed += own
    if (own.put(key, value)) count += 1
    keyBytes += own.bytes - before
  }

  override def remove(key: Array[Byte]): Boolean = {
    val own = entriesOf(key)
    val isThere = own != null && own.has(key)
    if (isThere) {
      val before = own.bytes
      if (own.beginChange()) changed += own
      own.remove(key)
      count -= 1
      keyBytes += own.bytes - before
    }
    isThere
  }

  override def load(
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Unit = {
    val entry = Arrays.copyOfRange(key, keyStart, keyStart + keyLength)
    var own = entriesOf(entry)
    if (own != null || value != null) {
      if (own == null) {
        own = new KeyEntries(GroupedKey.prefixOf(entry))
        byKey.put(own.prefix, own)
      } else uncount(own)
      own.load(
        entry,
        if (value == null) null else Arrays.copyOfRange(value, valueStart, valueStart + valueLength)
      )
      recount(own)
    }
  }

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    if (start == null && end == null) new AllKeysIterator(reverse)
    else {
      val own = entriesOf(if (start == null) end else start)
      if (own == null) SortedEntriesIterator.empty else own.scan(start, end, reverse)
    }

  override def writeChanges(family: Int, group: Int, sink: ChangeSink): Unit = {
    val prefixes = changed.iterator.map(_.prefix).toArray
    KeySort.order(prefixes).foreach(i => changed(i).writeChanges(family, group, sink))
  }

  override def changesCommitted(): Unit = endTransaction(_.changesCommitted())

  override def rollback(): Unit = endTransaction(_.rollback())

  private def endTransaction(end: KeyEntries => Unit): Unit = if (changed.nonEmpty) {
    changed.foreach { own =>
      uncount(own)
      end(own)
      recount(own)
    }
    changed.clearAndShrink(0)
  }

  private def uncount(own: KeyEntries): Unit = {
    count -= own.size
    keyBytes -= own.bytes
  }

  /** Counts a key's entries again, if there are any left. */
  private def recount(own: KeyEntries): Unit = {
    val left = own.size
    if (left == 0) byKey.remove(own.prefix): Unit
    else {
      count += left
      keyBytes += own.bytes
    }
  }

  private def entriesOf(key: Array[Byte]): KeyEntries = {
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
        val own = entriesOf(prefixes.next())
        if (own != null) current = own.scan(null, null, reverse)
      }
      current.hasNext
    }
    override def next(): Entry = if (hasNext) current.next() else Iterator.empty.next()
    override def close(): Unit = ()
  }
}
