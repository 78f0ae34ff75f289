package keystate.backend.rocksdb

import java.nio.ByteBuffer
import java.util.Arrays

import org.rocksdb.RocksIterator

import keystate.backend.RunFormat

/** Goes through the entries of a family's group, from `start` (inclusive; null: the first) to `end`
  * (exclusive; null: the last), or backwards. It shows the database as it was when the cursor was
  * made.
  */
private[rocksdb] final class DatabaseCursor(
    val position: DatabaseCursor.Position,
    val segment: Database.Segment,
    database: Database,
    family: Int,
    group: Int,
    start: Array[Byte],
    end: Array[Byte],
    reverse: Boolean
) extends ForwardCursor {
  val madeAt: Long = database.writes
  private val prefix = family << 16 | group
  private val iterator = position.iterator
  private val keyBuffer = position.key
  private val valueBuffer = position.value
  // The key of an entry that it goes past.
  private var passed = Array.emptyByteArray

  var key: Array[Byte] = _
  var value: Array[Byte] = _

  def open(): this.type = {
    seek()
    read()
    this
  }

  override def advance(): Unit = {
    step()
    read()
  }

  /** Not for a cursor that goes backwards. */
  override def goOnTo(target: Array[Byte], steps: Int): Boolean = {
    var left = steps
    var isBefore = key != null && Arrays.compareUnsigned(key, target) < 0
    if (isBefore) {
      while (isBefore && left > 0) {
        iterator.next()
        left -= 1
        isBefore = isAtOneBefore(target)
      }
      if (isBefore) iterator.seek(keyBuffer.key(family, group, target))
      read()
    }
    !isBefore
  }

  override def close(): Unit = {
    key = null
    database.release(this)
  }

  private def seek(): Unit =
    if (!reverse)
      if (start == null) iterator.seek(keyBuffer.prefix(prefix))
      else iterator.seek(keyBuffer.key(family, group, start))
    else if (end != null) {
      iterator.seekForPrev(keyBuffer.key(family, group, end))
      if (iterator.isValid && isAt(end)) iterator.prev()
    } else if (prefix == -1) iterator.seekToLast()
    else {
      iterator.seekForPrev(keyBuffer.prefix(prefix + 1))
      if (iterator.isValid && bytes(keyBuffer, iterator.key(_)).getInt(0) == prefix + 1)
        iterator.prev()
    }

  private def isAt(entryKey: Array[Byte]): Boolean = {
    val buffer = bytes(keyBuffer, iterator.key(_))
    buffer.getInt(0) == prefix && Arrays.equals(entryKeyOf(buffer), entryKey)
  }

  /** Whether the cursor is at an entry of the group before this key. */
  private def isAtOneBefore(target: Array[Byte]): Boolean = iterator.isValid && {
    val stored = bytes(keyBuffer, iterator.key(_))
    val length = stored.limit() - RunFormat.PrefixLength
    stored.getInt(0) == prefix && {
      if (passed.length < length) passed = new Array[Byte](2 * length)
      stored.get(RunFormat.PrefixLength, passed, 0, length)
      Arrays.compareUnsigned(passed, 0, length, target, 0, target.length) < 0
    }
  }

  private def step(): Unit = if (reverse) iterator.prev() else iterator.next()

  /** Reads the current entry or, if it is a removal, the next existing one. */
  private def read(): Unit = {
    var found = false
    while (!found)
      if (!iterator.isValid) {
        iterator.status()
        close()
        found = true
      } else {
        val stored = bytes(keyBuffer, iterator.key(_))
        if (stored.getInt(0) != prefix) {
          close()
          found = true
        } else {
          key = entryKeyOf(stored)
          if (isOutside) {
            close()
            found = true
          } else {
            val content = bytes(valueBuffer, iterator.value(_))
            if (content.get(0) == RunFormat.Removed) step()
            else {
              value = new Array[Byte](content.limit() - 1)
              content.get(1, value)
              found = true
            }
          }
        }
      }
  }

  private def isOutside: Boolean =
    if (reverse) start != null && Arrays.compareUnsigned(key, start) < 0
    else end != null && Arrays.compareUnsigned(key, end) >= 0

  private def entryKeyOf(stored: ByteBuffer): Array[Byte] = {
    val key = new Array[Byte](stored.limit() - RunFormat.PrefixLength)
    stored.get(RunFormat.PrefixLength, key)
    key
  }

  private def bytes(into: NativeBuffer, get: ByteBuffer => Int): ByteBuffer = {
    var buffer = into.cleared()
    val length = get(buffer)
    if (length > buffer.capacity) {
      buffer = into.cleared(length)
      get(buffer)
    }
    buffer.position(0).limit(length)
  }
}

private[rocksdb] object DatabaseCursor {

  /** RocksDB's iterator, with the buffers that it is read into. It is expensive to make. */
  final class Position(val iterator: RocksIterator) extends AutoCloseable {
    val key = new NativeBuffer
    val value = new NativeBuffer
    override def close(): Unit = iterator.close()
  }
}
