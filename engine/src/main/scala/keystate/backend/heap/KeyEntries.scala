package keystate.backend.heap

import keystate.backend.{ChangeSink, EntryIterator}

/** The entries of one key, with the changes of the transaction. Few are packed in an array, many are
  * in a table of their own.
  *
  * @param prefix
  *   what the entry keys begin with
  */
private[heap] final class KeyEntries(val prefix: Array[Byte]) {
  import KeyEntries._

  private var few = PackedEntries.Empty
  private var many: OrderedTable = _ // null: they are in `few`
  // What `few` was when the transaction began. Null if it has changed nothing.
  private var before: Array[Byte] = _

  def size: Int = if (many != null) many.size else PackedEntries.count(few)

  /** Estimate of the memory they take, in bytes. */
  def bytes: Long =
    KeyOverhead + prefix.length + (if (many != null) many.bytes else few.length.toLong)

  def get(key: Array[Byte]): Array[Byte] =
    if (many != null) many.get(key)
    else {
      val at = find(key)
      if (at < 0) null else PackedEntries.value(few, at)
    }

  def has(key: Array[Byte]): Boolean = if (many != null) many.get(key) != null else find(key) >= 0

  /** Must be called before a change. Whether it is the transaction's first. */
  def beginChange(): Boolean = {
    val isFirst = before == null
    if (isFirst) before = if (many != null) WereMany else few
    isFirst
  }

  /** Returns whether the entry is new. */
  def put(key: Array[Byte], value: Array[Byte]): Boolean =
    if (many != null) {
      val had = many.size
      many.put(key, value)
      many.size > had
    } else {
      val found = find(key)
      few = updated(found, key, value)
      if (areMany) unpack()
      found < 0
    }

  /** Removes an entry that there is. */
  def remove(key: Array[Byte]): Unit =
    if (many != null) many.remove(key): Unit else few = PackedEntries.without(few, find(key))

  /** Like put (or remove if the value is null), but not as a change. There is no transaction. */
  def load(key: Array[Byte], value: Array[Byte]): Unit =
    if (many != null)
      many.load(key, 0, key.length, value, 0, if (value == null) 0 else value.length)
    else {
      val found = find(key)
      if (value != null) few = updated(found, key, value)
      else if (found >= 0) few = PackedEntries.without(few, found)
      if (areMany) unpack()
    }

  def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    if (many != null) many.scan(start, end, reverse)
    else PackedEntries.scan(prefix, few, start, end, reverse)

  def changeCount: Int =
    if (many != null) many.changeCount
    else {
      var count = 0
      PackedEntries.differences(before, few)((_, _, _) => count += 1)
      count
    }

  def writeChanges(family: Int, group: Int, sink: ChangeSink): Unit =
    if (many != null) many.writeChanges(family, group, sink)
    else
      PackedEntries.differences(before, few) { (packed, at, isRemoved) =>
        val key = PackedEntries.key(prefix, packed, at)
        sink.add(
          family,
          group,
          key,
          0,
          key.length,
          if (isRemoved) null else packed,
          PackedEntries.valueStart(packed, at),
          PackedEntries.valueLength(packed, at)
        )
      }

  def changesCommitted(): Unit = {
    before = null
    if (many != null) {
      many.changesCommitted()
      if (many.bytes < FewBytes) pack()
    }
  }

  def rollback(): Unit = {
    if (before eq WereMany) many.rollback()
    else {
      few = before
      many = null
    }
    before = null
  }

  private def find(key: Array[Byte]): Int = PackedEntries.find(few, key, prefix.length)

  private def updated(found: Int, key: Array[Byte], value: Array[Byte]): Array[Byte] =
    PackedEntries.updated(few, found, key, prefix.length, key.length, value, 0, value.length)

  /** One entry is always packed, however long it is. */
  private def areMany: Boolean = few.length > FewBytes && PackedEntries.count(few) > 1

  /** Moves the entries into a table, with the transaction's changes as changes. */
  private def unpack(): Unit = {
    val table = new OrderedTable
    val committed = if (before == null) few else before
    PackedEntries.foreach(prefix, committed) { (key, value) =>
      table.load(key, 0, key.length, value, 0, value.length)
    }
    PackedEntries.differences(committed, few) { (packed, at, isRemoved) =>
      val key = PackedEntries.key(prefix, packed, at)
      if (isRemoved) table.remove(key): Unit else table.put(key, PackedEntries.value(packed, at))
    }
    many = table
    few = PackedEntries.Empty
  }

  private def pack(): Unit = {
    val entries = many.scan(null, null, reverse = false)
    few = PackedEntries.Empty
    entries.foreach { entry =>
      few = updated(~few.length, entry.key, entry.value)
    }
    many = null
  }
}

private object KeyEntries {

  /** Up to this many bytes of entries are packed: that many are copied for a change. */
  private final val FewBytes = 1024

  /** Bytes that a key takes besides its entries and itself: its slot, this object and two arrays. */
  private final val KeyOverhead = 88

  /** Stands for what was before where the entries are in a table, which knows. */
  private val WereMany = new Array[Byte](0)
}
