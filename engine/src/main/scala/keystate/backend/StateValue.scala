package keystate.backend

import java.nio.ByteBuffer

/** The stored form of an entry's value, for states of Keystate's own operators.
  *
  * {{{
  * [flags: 1 byte][schema id: 2 bytes, if bit 0 of flags][timestamp: 8 bytes, if bit 1][row]
  * }}}
  *
  * Numbers are big-endian. The timestamp, in milliseconds since the epoch, is the time of the
  * entry's last use, for a time to live. The row is the bytes of an UnsafeRow; there is none if bit
  * 2 of flags is set. Unknown flag bits are an error, because the fields after them can't be
  * separated from the row: methods that read the flags throw IllegalStateException.
  */
object StateValue {

  /** Means no schema id: the value has the state's first schema, 0. */
  final val NoSchemaId = -1

  /** Means no timestamp: the value was written without a time to live. */
  final val NoTimestamp = Long.MinValue

  private final val SchemaIdFlag = 1
  private final val TimestampFlag = 2

  /** Bit 2 of flags: the value of a map is null although its type is a struct. No row follows. */
  final val NullFlag: Byte = 4

  private final val KnownFlags = SchemaIdFlag | TimestampFlag | NullFlag

  /** The offset of the row. */
  def rowOffset(value: Array[Byte]): Int = {
    val flags = flagsOf(value)
    1 + (if ((flags & SchemaIdFlag) != 0) 2 else 0) + (if ((flags & TimestampFlag) != 0) 8 else 0)
  }

  /** The schema id, or [[NoSchemaId]]. */
  def schemaId(value: Array[Byte]): Int =
    if ((flagsOf(value) & SchemaIdFlag) == 0) NoSchemaId
    else ByteBuffer.wrap(value).getShort(1) & 0xffff

  /** The timestamp, or [[NoTimestamp]]. */
  def timestamp(value: Array[Byte]): Long = {
    val flags = flagsOf(value)
    if ((flags & TimestampFlag) == 0) NoTimestamp
    else ByteBuffer.wrap(value).getLong(if ((flags & SchemaIdFlag) != 0) 3 else 1)
  }

  /** The value of a row, without schema id and timestamp. */
  def encode(row: Array[Byte]): Array[Byte] = encode(row, 0, row.length, NoSchemaId, NoTimestamp)

  /** The value of the row that is `length` bytes from `offset` on. */
  def encode(
      row: Array[Byte],
      offset: Int,
      length: Int,
      schemaId: Int = NoSchemaId,
      timestamp: Long = NoTimestamp
  ): Array[Byte] = {
    val hasSchemaId = schemaId != NoSchemaId
    val hasTimestamp = timestamp != NoTimestamp
    val header = 1 + (if (hasSchemaId) 2 else 0) + (if (hasTimestamp) 8 else 0)
    val value = new Array[Byte](header + length)
    if (hasSchemaId || hasTimestamp) {
      val buffer = ByteBuffer.wrap(value)
      val flags =
        (if (hasSchemaId) SchemaIdFlag else 0) | (if (hasTimestamp) TimestampFlag else 0)
      buffer.put(flags.toByte)
      if (hasSchemaId) buffer.putShort(schemaId.toShort)
      if (hasTimestamp) buffer.putLong(timestamp)
    }
    System.arraycopy(row, offset, value, header, length)
    value
  }

  /** A copy of the value with this timestamp. */
  def withTimestamp(value: Array[Byte], timestamp: Long): Array[Byte] = {
    val flags = flagsOf(value)
    val at = if ((flags & SchemaIdFlag) != 0) 3 else 1
    val rest = rowOffset(value)
    val stamped = new Array[Byte](at + 8 + value.length - rest)
    System.arraycopy(value, 0, stamped, 0, at)
    stamped(0) = (flags | TimestampFlag).toByte
    ByteBuffer.wrap(stamped).putLong(at, timestamp)
    System.arraycopy(value, rest, stamped, at + 8, value.length - rest)
    stamped
  }

  /** A copy of the value with this schema id. */
  def withSchemaId(value: Array[Byte], schemaId: Int): Array[Byte] = {
    val flags = flagsOf(value)
    val rest = if ((flags & SchemaIdFlag) != 0) 3 else 1
    val marked = new Array[Byte](3 + value.length - rest)
    marked(0) = (flags | SchemaIdFlag).toByte
    ByteBuffer.wrap(marked).putShort(1, schemaId.toShort)
    System.arraycopy(value, rest, marked, 3, value.length - rest)
    marked
  }

  private def flagsOf(value: Array[Byte]): Int = {
    val flags = value(0)
    if ((flags & ~KnownFlags) != 0)
      throw new IllegalStateException(
        s"state value has unknown flags ${flags & 0xff}: it was written by a newer Keystate, use that"
      )
    flags
  }
}
