package org.apache.spark.sql.keystate.encoding

import java.nio.ByteBuffer

import org.apache.spark.sql.types.StructType

/** A window as the namespace of its timers: `[end: int64][start: int64]`, big-endian with the sign
  * flipped, so windows of a key and a time are in order of their ends. Part of the file format.
  */
object WindowNamespace {
  final val Length = 16

  /** A window in tables, in ms. */
  val Columns: StructType =
    new StructType().add("end", "long", nullable = false).add("start", "long", nullable = false)

  def apply(end: Long, start: Long): Array[Byte] = ByteBuffer
    .allocate(Length)
    .putLong(end ^ Long.MinValue)
    .putLong(start ^ Long.MinValue)
    .array()

  def endOf(namespace: Array[Byte]): Long = ByteBuffer.wrap(namespace).getLong(0) ^ Long.MinValue

  def startOf(namespace: Array[Byte]): Long = ByteBuffer.wrap(namespace).getLong(8) ^ Long.MinValue
}
