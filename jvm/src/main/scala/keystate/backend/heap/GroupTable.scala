package keystate.backend.heap

import java.nio.ByteBuffer
import java.util.{Arrays, Comparator, NavigableMap, TreeMap}

import keystate.backend.{Entry, EntryIterator, Layout}

/** The entries of one key group of one family. `hash` is always `BytesMap.hash` of the whole key.
  */
private[heap] sealed abstract class GroupTable {
  def get(key: Array[Byte], hash: Int): Array[Byte]

  /** Returns the value that was replaced, or null. */
  def put(key: Array[Byte], hash: Int, value: Array[Byte]): Array[Byte]

  /** Returns the value that was removed, or null. */
  def remove(key: Array[Byte], hash: Int): Array[Byte]

  def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator

  def size: Int

  /** Bytes an entry takes besides its key and value: array headers, slots or tree node. */
  def entryOverhead: Int
}

private[heap] object GroupTable {
  type SortedEntries = TreeMap[Array[Byte], Array[Byte]]

  val byteOrder: Comparator[Array[Byte]] = Arrays.compareUnsigned(_, _)

  def apply(layout: Layout): GroupTable = layout match {
    case Layout.Point => new PointTable
    case Layout.Grouped => new GroupedTable
    case Layout.Ordered => new OrderedTable
  }

  /** The entries from `start` to `end`, or from last to first; null when there can be none. */
  def range(
      entries: SortedEntries,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): NavigableMap[Array[Byte], Array[Byte]] = {
    val view: NavigableMap[Array[Byte], Array[Byte]] =
      if (start == null && end == null) entries
      else if (end == null) entries.tailMap(start, true)
      else if (start == null) entries.headMap(end, false)
      else if (byteOrder.compare(start, end) > 0) null
      else entries.subMap(start, true, end, false)
    if (view == null || !reverse) view else view.descendingMap
  }
}

private[heap] final class PointTable extends GroupTable {
  private val entries = new BytesMap[Array[Byte]]

  override def get(key: Array[Byte], hash: Int): Array[Byte] = entries.get(key, key.length, hash)
  override def put(key: Array[Byte], hash: Int, value: Array[Byte]): Array[Byte] =
    entries.put(key, hash, value)
  override def remove(key: Array[Byte], hash: Int): Array[Byte] =
    entries.remove(key, key.length, hash)

  // A copy of the references, made when the first entry is asked for.
  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator = {
    require(start == null && end == null && !reverse, "a point state has no order to scan in")
    new EntryIterator {
      private lazy val snapshot = {
        val copy = new Array[Entry](entries.size)
        var n = 0
        entries.foreach { (key, value) =>
          copy(n) = new Entry(key, value)
          n += 1
        }
        copy.iterator
      }
      override def hasNext: Boolean = snapshot.hasNext
      override def next(): Entry = snapshot.next()
      override def close(): Unit = ()
    }
  }

  override def size: Int = entries.size
  override def entryOverhead: Int = 60
}

private[heap] final class OrderedTable extends GroupTable {
  private val entries = new GroupTable.SortedEntries(GroupTable.byteOrder)

  override def get(key: Array[Byte], hash: Int): Array[Byte] = entries.get(key)
  override def put(key: Array[Byte], hash: Int, value: Array[Byte]): Array[Byte] =
    entries.put(key, value)
  override def remove(key: Array[Byte], hash: Int): Array[Byte] = entries.remove(key)

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    new SortedEntriesIterator(GroupTable.range(entries, start, end, reverse))

  override def size: Int = entries.size
  override def entryOverhead: Int = 80
}

/** A hash table of keys, each with its entries in the order of their user keys. */
private[heap] final class GroupedTable extends GroupTable {
  import GroupTable.SortedEntries

  private val byKey = new BytesMap[SortedEntries]
  private var count = 0

  override def get(key: Array[Byte], hash: Int): Array[Byte] = {
    val entries = entriesOf(key)
    if (entries == null) null else entries.get(key)
  }

  override def put(key: Array[Byte], hash: Int, value: Array[Byte]): Array[Byte] = {
    val length = prefixLength(key)
    val prefixHash = BytesMap.hash(key, length)
    var entries = byKey.get(key, length, prefixHash)
    if (entries == null) {
      entries = new SortedEntries(GroupTable.byteOrder)
      byKey.put(Arrays.copyOf(key, length), prefixHash, entries)
    }
    val old = entries.put(key, value)
    if (old == null) count += 1
    old
  }

  override def remove(key: Array[Byte], hash: Int): Array[Byte] = {
    val entries = entriesOf(key)
    if (entries == null) null
    else {
      val old = entries.remove(key)
      if (old != null) count -= 1
      if (entries.isEmpty) {
        val length = prefixLength(key)
        byKey.remove(key, length, BytesMap.hash(key, length))
      }
      old
    }
  }

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    if (start == null && end == null) new AllKeysIterator(reverse)
    else {
      val entries = entriesOf(if (start == null) end else start)
      if (entries == null) SortedEntriesIterator.empty
      else new SortedEntriesIterator(GroupTable.range(entries, start, end, reverse))
    }

  override def size: Int = count
  override def entryOverhead: Int = 90

  private def entriesOf(key: Array[Byte]): SortedEntries = {
    val length = prefixLength(key)
    byKey.get(key, length, BytesMap.hash(key, length))
  }

  private def prefixLength(key: Array[Byte]): Int = 4 + ByteBuffer.wrap(key).getInt(0)

  private final class AllKeysIterator(reverse: Boolean) extends EntryIterator {
    private lazy val prefixes = {
      val copy = byKey.copyKeys()
      Arrays.sort(copy, if (reverse) GroupTable.byteOrder.reversed else GroupTable.byteOrder)
      copy.iterator
    }
    private var current: EntryIterator = SortedEntriesIterator.empty

    override def hasNext: Boolean = {
      while (!current.hasNext && prefixes.hasNext) {
        val entries = entriesOf(prefixes.next())
        if (entries != null)
          current = new SortedEntriesIterator(GroupTable.range(entries, null, null, reverse))
      }
      current.hasNext
    }
    override def next(): Entry = if (hasNext) current.next() else Iterator.empty.next()
    override def close(): Unit = ()
  }
}
