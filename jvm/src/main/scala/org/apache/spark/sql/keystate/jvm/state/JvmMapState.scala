package org.apache.spark.sql.keystate.jvm.state

import scala.collection.mutable.ArrayBuffer

import keystate.backend.{Entry, EntryIterator, GroupScan, GroupedKey}
import keystate.errors.KeystateErrors
import keystate.{MapEntry, SortedMapState}
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.spec.StateSpec
import org.apache.spark.sql.keystate.state.MapKeyCodec

/** Map and sorted map state: one stored entry for each user key. Iterators are lazy: before the map
  * changes, their remaining entries are read.
  */
private[keystate] final class JvmMapState(
    spec: StateSpec,
    index: Int,
    keyCodec: ObjectCodec,
    valueCodec: ObjectCodec,
    cursor: CurrentKey
) extends JvmState(spec, index, cursor)
    with SortedMapState[Any, Any]
    with CopiesValues {
  private val userKeys = new MapKeyCodec(spec, keyCodec)
  private val live = ArrayBuffer.empty[Entries]

  private def entryKey(key: Any): Array[Byte] = {
    check()
    GroupedKey.entry(cursor.key, userKeys.encode(key))
  }

  private def prefix: Array[Byte] = {
    check()
    GroupedKey.prefix(cursor.key)
  }

  private def entry(stored: Entry): MapEntry[Any, Any] = {
    wasRead(stored.key)
    val key = userKeys.decode(stored.key, GroupedKey.userKeyOffset(stored.key))
    MapEntry(key, valueCodec.decode(stored.value))
  }

  private def stored(key: Array[Byte]): Array[Byte] = {
    val bytes = store.get(cursor.group, key)
    if (bytes != null) wasRead(key)
    bytes
  }

  override def get(key: Any): Any = {
    val bytes = stored(entryKey(key))
    if (bytes == null) null else valueCodec.decode(bytes)
  }

  override def contains(key: Any): Boolean = stored(entryKey(key)) != null

  override def copyOf(value: Any): Any =
    KeystateErrors.inState(spec.name, spec.describe)(valueCodec.copy(value))

  override def put(key: Any, value: Any): Unit = {
    val at = entryKey(key)
    val bytes = KeystateErrors.inState(spec.name, spec.describe)(valueCodec.encode(value))
    changing()
    store.put(cursor.group, at, bytes)
    wasWritten(at)
    cursor.updated += 1
  }

  override def remove(key: Any): Unit = removeEntry(entryKey(key))

  private def removeEntry(key: Array[Byte]): Unit = {
    changing()
    store.remove(cursor.group, key)
    cursor.removed += 1
  }

  override def clear(): Unit = {
    check()
    changing()
    cursor.removed += store.clear(cursor.group, cursor.key)
  }

  override def removeRange(start: Any, end: Any): Unit = {
    val from = entryKey(start)
    val until = entryKey(end)
    changing()
    val found = scan(from, until, reverse = false)
    val doomed =
      try found.map(_.key).toArray
      finally found.close()
    doomed.foreach(removeEntry)
  }

  override def entries(): Iterable[MapEntry[Any, Any]] = {
    check()
    super.entries()
  }

  override def iterator(): Iterator[MapEntry[Any, Any]] = range(prefix, null, reverse = false)

  override def isEmpty(): Boolean = {
    val found = scan(prefix, null, reverse = false)
    try !found.hasNext
    finally found.close()
  }

  override def firstEntry(): MapEntry[Any, Any] = first(prefix, null, reverse = false)
  override def lastEntry(): MapEntry[Any, Any] = first(prefix, null, reverse = true)

  override def headIterator(end: Any, reverse: Boolean): Iterator[MapEntry[Any, Any]] =
    range(prefix, entryKey(end), reverse)

  override def tailIterator(start: Any, reverse: Boolean): Iterator[MapEntry[Any, Any]] =
    range(entryKey(start), null, reverse)

  override def subIterator(start: Any, end: Any, reverse: Boolean): Iterator[MapEntry[Any, Any]] =
    range(entryKey(start), entryKey(end), reverse)

  override def floorEntry(key: Any): MapEntry[Any, Any] = {
    val at = entryKey(key)
    val bytes = stored(at)
    if (bytes != null) entry(new Entry(at, bytes)) else first(prefix, at, reverse = true)
  }

  override def ceilingEntry(key: Any): MapEntry[Any, Any] =
    first(entryKey(key), null, reverse = false)

  override def popFirst(): MapEntry[Any, Any] = {
    val found = firstEntry()
    if (found != null) remove(found.getKey)
    found
  }

  private def first(start: Array[Byte], end: Array[Byte], reverse: Boolean) = {
    val found = scan(start, end, reverse)
    try if (found.hasNext) entry(found.next()) else null
    finally found.close()
  }

  private def range(start: Array[Byte], end: Array[Byte], reverse: Boolean): Entries = {
    val entries = new Entries(scan(start, end, reverse), cursor.element)
    live += entries
    cursor.closeLater(entries)
    entries
  }

  private def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator =
    if (end != null && java.util.Arrays.compareUnsigned(start, end) >= 0) GroupScan.empty
    else if (reverse) store.scanReverse(cursor.group, start, end)
    else store.scan(cursor.group, start, end)

  private def changing(): Unit = if (live.nonEmpty) {
    live.foreach(_.readAhead())
    live.clear()
  }

  private final class Entries(scan: EntryIterator, element: Long)
      extends Iterator[MapEntry[Any, Any]]
      with AutoCloseable {
    private var rest: Iterator[Entry] = scan
    private var closed = false

    private def checkElement(): Unit =
      if (closed || cursor.element != element) throw KeystateErrors.noCurrentKey(spec.name)
      else check()

    override def hasNext: Boolean = {
      checkElement()
      rest.hasNext
    }

    override def next(): MapEntry[Any, Any] = {
      checkElement()
      entry(rest.next())
    }

    def readAhead(): Unit = if (!closed && (rest eq scan)) {
      rest = scan.toVector.iterator
      scan.close()
    }

    override def close(): Unit = if (!closed) {
      closed = true
      if (rest eq scan) scan.close()
      live -= this
      ()
    }
  }
}
