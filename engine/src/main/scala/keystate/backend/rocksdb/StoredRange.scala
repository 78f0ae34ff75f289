package keystate.backend.rocksdb

import scala.collection.mutable

/** All entries of the database in a range. */
private[rocksdb] final class StoredRange(
    val group: Int,
    val start: Array[Byte],
    val end: Array[Byte],
    val keys: Array[Array[Byte]],
    values: Array[Array[Byte]]
) {
  def cursor: StoredCursor = new StoredCursor {
    private var i = 0
    override def key: Array[Byte] = if (i < keys.length) keys(i) else null
    override def value: Array[Byte] = values(i)
    override def advance(): Unit = i += 1
    override def close(): Unit = i = keys.length
  }
}

/** Collects the entries of a range as long as they are few. */
private[rocksdb] final class FewEntries {
  import FewEntries._

  private val keys = new mutable.ArrayBuffer[Array[Byte]](4)
  private val values = new mutable.ArrayBuffer[Array[Byte]](4)
  private var bytes = 0L

  def areTooMany: Boolean = bytes > MaxBytes

  /** Adds the entry that the cursor is at. */
  def add(cursor: StoredCursor): Unit = {
    keys += cursor.key
    values += cursor.value
    bytes += cursor.key.length + cursor.value.length + EntryBytes
  }

  def range(group: Int, start: Array[Byte], end: Array[Byte]): StoredRange =
    new StoredRange(group, start, end, keys.toArray, values.toArray)
}

private object FewEntries {

  /** The most that few entries may have, and what one takes besides its bytes. */
  private final val MaxBytes = 4096L
  private final val EntryBytes = 100L
}
