package org.apache.spark.sql.keystate.encoding

import java.math.{BigDecimal, BigInteger}
import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, SpecializedGetters}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types.Decimal
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Reads and writes values of one type, as a whole user key or as a part of one.
  * [[OrderedKeyCodec]] documents the format.
  */
private[keystate] sealed abstract class KeyPartCodec {

  /** Appends the non-null value at `ordinal`. */
  def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit

  /** Reads the value at the position of `in`, moves the position behind it, and puts the value into
    * `row`.
    */
  def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit
}

/** A growing byte array. Its first `length` bytes are written. */
private[keystate] final class KeyWriter {
  private var buffer = ByteBuffer.allocate(64)
  var length = 0

  def toArray: Array[Byte] = Arrays.copyOf(buffer.array, length)

  def writeByte(value: Int): Unit = {
    reserve(1)(length) = value.toByte
    length += 1
  }

  def writeShort(value: Int): Unit = {
    reserve(2)
    buffer.putShort(length, value.toShort)
    length += 2
  }

  def writeInt(value: Int): Unit = {
    reserve(4)
    buffer.putInt(length, value)
    length += 4
  }

  def writeLong(value: Long): Unit = {
    reserve(8)
    buffer.putLong(length, value)
    length += 8
  }

  def writeBytes(value: Array[Byte]): Unit = {
    System.arraycopy(value, 0, reserve(value.length), length, value.length)
    length += value.length
  }

  def writeString(value: UTF8String): Unit = {
    val bytes = value.numBytes
    value.writeToMemory(reserve(bytes), Platform.BYTE_ARRAY_OFFSET + length)
    length += bytes
  }

  /** The array, with room for at least `count` bytes from `length` on. */
  def reserve(count: Int): Array[Byte] = {
    val capacity = buffer.capacity
    if (capacity - length < count) {
      val grown = math.max(2 * capacity, Math.addExact(length, count))
      buffer = ByteBuffer.wrap(Arrays.copyOf(buffer.array, grown))
    }
    buffer.array
  }
}

private[keystate] object BooleanCodec extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit =
    out.writeByte(if (input.getBoolean(ordinal)) 1 else 0)

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit =
    row.setBoolean(ordinal, in.get() != 0)
}

private[keystate] final class ByteCodec(signed: Boolean) extends KeyPartCodec {
  private val sign = if (signed) Byte.MinValue.toInt else 0

  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit =
    out.writeByte(input.getByte(ordinal) ^ sign)

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit =
    row.setByte(ordinal, (in.get() ^ sign).toByte)
}

private[keystate] final class ShortCodec(signed: Boolean) extends KeyPartCodec {
  private val sign = if (signed) Short.MinValue.toInt else 0

  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit =
    out.writeShort(input.getShort(ordinal) ^ sign)

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit =
    row.setShort(ordinal, (in.getShort() ^ sign).toShort)
}

private[keystate] final class IntCodec(signed: Boolean) extends KeyPartCodec {
  private val sign = if (signed) Int.MinValue else 0

  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit =
    out.writeInt(input.getInt(ordinal) ^ sign)

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit =
    row.setInt(ordinal, in.getInt() ^ sign)
}

private[keystate] final class LongCodec(signed: Boolean) extends KeyPartCodec {
  private val sign = if (signed) Long.MinValue else 0L

  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit =
    out.writeLong(input.getLong(ordinal) ^ sign)

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit =
    row.setLong(ordinal, in.getLong() ^ sign)
}

private[keystate] final class FloatCodec(signed: Boolean) extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val value = input.getFloat(ordinal)
    // -0.0 equals 0.0, so both get the bits of 0.0. floatToIntBits gives all NaNs the same bits.
    val bits = java.lang.Float.floatToIntBits(if (value == 0.0f) 0.0f else value)
    out.writeInt(if (signed) bits ^ (bits >> 31 | Int.MinValue) else bits)
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val stored = in.getInt()
    val bits = if (signed) stored ^ (~stored >> 31 | Int.MinValue) else stored
    row.setFloat(ordinal, java.lang.Float.intBitsToFloat(bits))
  }
}

private[keystate] final class DoubleCodec(signed: Boolean) extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val value = input.getDouble(ordinal)
    // -0.0 equals 0.0, so both get the bits of 0.0. doubleToLongBits gives all NaNs the same bits.
    val bits = java.lang.Double.doubleToLongBits(if (value == 0.0) 0.0 else value)
    out.writeLong(if (signed) bits ^ (bits >> 63 | Long.MinValue) else bits)
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val stored = in.getLong()
    val bits = if (signed) stored ^ (~stored >> 63 | Long.MinValue) else stored
    row.setDouble(ordinal, java.lang.Double.longBitsToDouble(bits))
  }
}

private[keystate] sealed abstract class DecimalCodec(precision: Int, scale: Int)
    extends KeyPartCodec {

  /** The value with the type's precision and scale, which only UnsafeRow guarantees. */
  protected def decimal(input: SpecializedGetters, ordinal: Int): Decimal = {
    val value = input.getDecimal(ordinal, precision, scale)
    if (value.precision == precision && value.scale == scale) value
    else value.toPrecision(precision, scale, nullOnOverflow = false)
  }
}

private[keystate] final class SmallDecimalCodec(precision: Int, scale: Int, signed: Boolean)
    extends DecimalCodec(precision, scale) {
  private val sign = if (signed) Long.MinValue else 0L

  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit =
    out.writeLong(decimal(input, ordinal).toUnscaledLong ^ sign)

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit =
    row.setDecimal(ordinal, Decimal.createUnsafe(in.getLong() ^ sign, precision, scale), precision)
}

private[keystate] final class LargeDecimalCodec(precision: Int, scale: Int, signed: Boolean)
    extends DecimalCodec(precision, scale) {
  private val sign = if (signed) Long.MinValue else 0L

  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val unscaled = decimal(input, ordinal).toJavaBigDecimal.unscaledValue
    out.writeLong(unscaled.shiftRight(64).longValue ^ sign)
    out.writeLong(unscaled.longValue)
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val unscaled = ByteBuffer.allocate(16).putLong(in.getLong() ^ sign).putLong(in.getLong())
    val value = new BigDecimal(new BigInteger(unscaled.array), scale)
    row.setDecimal(ordinal, Decimal(value, precision, scale), precision)
  }
}

private[keystate] final class StringCodec(last: Boolean) extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val value = input.getUTF8String(ordinal)
    if (last) out.writeString(value) else Escaped.write(value.getBytes, out)
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val value =
      if (last) UTF8String.fromBytes(in.array, in.position(), in.remaining)
      else UTF8String.fromBytes(Escaped.read(in))
    row.update(ordinal, value)
  }
}

private[keystate] final class BinaryCodec(last: Boolean) extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val bytes = input.getBinary(ordinal)
    if (last) out.writeBytes(bytes) else Escaped.write(bytes, out)
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val value =
      if (last) Arrays.copyOfRange(in.array, in.position(), in.limit())
      else Escaped.read(in)
    row.update(ordinal, value)
  }
}

/** Bytes inside a key, after which something may follow: escaped and ended. */
private object Escaped {
  private val Zero: Byte = -1
  private val End: Byte = 1

  def write(bytes: Array[Byte], out: KeyWriter): Unit = {
    // at worst every byte is a zero and takes two
    val escaped = out.reserve(Math.addExact(Math.multiplyExact(2, bytes.length), 2))
    var at = out.length
    var i = 0
    while (i < bytes.length) {
      escaped(at) = bytes(i)
      at += 1
      if (bytes(i) == 0) {
        escaped(at) = Zero
        at += 1
      }
      i += 1
    }
    escaped(at) = 0
    escaped(at + 1) = End
    out.length = at + 2
  }

  def read(in: ByteBuffer): Array[Byte] = {
    val escaped = in.array
    var end = in.position()
    var length = 0
    while (escaped(end) != 0 || escaped(end + 1) != End) {
      end += (if (escaped(end) == 0) 2 else 1)
      length += 1
    }
    val bytes = new Array[Byte](length)
    var at = in.position()
    var i = 0
    while (i < length) {
      bytes(i) = escaped(at)
      at += (if (escaped(at) == 0) 2 else 1)
      i += 1
    }
    in.position(end + 2)
    bytes
  }
}

private[keystate] final class StructCodec(fields: Array[KeyPartCodec]) extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val struct = input.getStruct(ordinal, fields.length)
    var i = 0
    while (i < fields.length) {
      if (struct.isNullAt(i))
        out.writeByte(0)
      else {
        out.writeByte(1)
        fields(i).write(struct, i, out)
      }
      i += 1
    }
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val struct = new GenericInternalRow(fields.length)
    var i = 0
    while (i < fields.length) {
      if (in.get() != 0) fields(i).read(in, struct, i)
      i += 1
    }
    row.update(ordinal, struct)
  }
}

private[keystate] final class ArrayCodec(element: KeyPartCodec) extends KeyPartCodec {
  override def write(input: SpecializedGetters, ordinal: Int, out: KeyWriter): Unit = {
    val array = input.getArray(ordinal)
    val count = array.numElements()
    var i = 0
    while (i < count) {
      if (array.isNullAt(i))
        out.writeByte(1)
      else {
        out.writeByte(2)
        element.write(array, i, out)
      }
      i += 1
    }
    out.writeByte(0)
  }

  override def read(in: ByteBuffer, row: InternalRow, ordinal: Int): Unit = {
    val elements = ArrayBuffer.empty[Any]
    val cell = new GenericInternalRow(1)
    var marker = in.get()
    while (marker != 0) {
      if (marker == 1) cell.setNullAt(0) else element.read(in, cell, 0)
      elements += cell.values(0)
      marker = in.get()
    }
    row.update(ordinal, new GenericArrayData(elements.toArray))
  }
}
