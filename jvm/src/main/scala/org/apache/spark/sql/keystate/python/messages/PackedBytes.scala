package org.apache.spark.sql.keystate.python.messages

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Bytes that grow, little-endian: a part of a packed message. */
private[keystate] final class PackedBytes {
  import PackedBytes._

  private var bytes = new Array[Byte](1 << 10)
  private var used = 0

  def array: Array[Byte] = bytes
  def size: Int = used

  def addInt(value: Int): Unit = {
    val at = room(4)
    ints.set(bytes, at, value)
  }

  def addLong(value: Long): Unit = {
    val at = room(8)
    longs.set(bytes, at, value)
  }

  /** Adds a row with its length. */
  def addRow(row: UnsafeRow): Unit = {
    val length = row.getSizeInBytes
    addInt(length)
    val at = room(length)
    row.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at)
  }

  def add(from: Array[Byte], start: Int, length: Int): Unit = {
    val at = room(length)
    System.arraycopy(from, start, bytes, at, length)
  }

  def add(other: PackedBytes): Unit = add(other.bytes, 0, other.used)

  def clear(): Unit = used = 0

  /** The position for this many more bytes. It may replace `bytes`, so call it before reading that.
    */
  private def room(length: Int): Int = {
    val at = used
    used = Math.addExact(used, length)
    if (used > bytes.length)
      bytes = Arrays.copyOf(bytes, math.max(used.toLong, 2L * bytes.length).min(MostBytes).toInt)
    at
  }
}

private[keystate] object PackedBytes {

  /** The first byte of messages and answers in bytes: an Arrow stream follows, or packed rows. */
  final val Arrow = 0
  final val Rows = 1

  private final val MostBytes = Int.MaxValue - 8L

  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.LITTLE_ENDIAN)
  private val longs =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.LITTLE_ENDIAN)

  def intAt(bytes: Array[Byte], at: Int): Int = {
    val value: Int = ints.get(bytes, at)
    value
  }

  def longAt(bytes: Array[Byte], at: Int): Long = {
    val value: Long = longs.get(bytes, at)
    value
  }
}
