package org.apache.spark.sql.keystate.encoding

import java.nio.ByteBuffer
import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.types._
import org.apache.spark.sql.catalyst.util.CollationFactory.UTF8_BINARY_COLLATION_ID
import org.apache.spark.sql.types.{DataType, Decimal, UserDefinedType}

/** The order in which the bytes of an [[OrderedKeyCodec]] sort. */
private[keystate] sealed abstract class StoredOrder(val name: String)

private[keystate] object StoredOrder {

  /** Spark's ascending order of the type, nulls first. */
  case object Natural extends StoredOrder("natural")

  /** The reverse of [[Natural]]. */
  case object Descending extends StoredOrder("descending")

  /** The order of Flink's BytewiseComparator. It is [[Natural]], except that negative numbers sort
    * after the others, and negative floating point numbers sort by magnitude among themselves.
    */
  case object Bytewise extends StoredOrder("bytewise")

  def byName(name: String): StoredOrder = Seq(Natural, Descending, Bytewise)
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"unknown key order '$name'"))
}

/** Encodes the user key, which is the end of a stored entry key. The unsigned order of the bytes is
  * a [[StoredOrder]] of the key's type. Keys that are equal for Spark have the same bytes.
  *
  * The bytes are an on-disk format. Numbers are big-endian:
  *   - boolean: 1 byte, 0 or 1;
  *   - byte, short, int, long: 1, 2, 4 or 8 bytes, the sign bit flipped. A date and a year-month
  *     interval is an int; a timestamp, timestamp_ntz, time and day-time interval is a long;
  *   - float, double: the IEEE 754 bits. If the sign bit is clear, it is flipped; if it is set, all
  *     bits are flipped. -0.0 is stored as 0.0, and every NaN as Java's NaN;
  *   - decimal: the unscaled value, the sign bit flipped. Up to precision 18 it is a long, above
  *     that it has 16 bytes;
  *   - string, binary: if it is the whole key, its bytes as they are, with no end mark. Inside a
  *     struct or array each 0x00 is stored as 0x00 0xFF, and 0x00 0x01 ends the value;
  *   - struct: for each field 0x00 if it is null, else 0x01 and the value. Declared nullability
  *     makes no difference, because it may change between runs;
  *   - array: for each element 0x01 if it is null, else 0x02 and the value; 0x00 ends the array;
  *   - user defined type: its SQL type.
  *
  * `Descending` stores the complement of these bytes. That reverses the order only if no encoding
  * is the prefix of another. So with `Descending` a string or binary is always escaped and ended.
  *
  * `Bytewise` flips no sign bits, and no bits of negative floating point numbers.
  *
  * An instance reuses a buffer: one thread at a time.
  */
private[keystate] final class OrderedKeyCodec private (value: KeyPartCodec, complement: Boolean) {
  private val out = new KeyWriter

  /** The bytes of the value at `ordinal`, which must not be null. A new array at each call. */
  def encode(input: SpecializedGetters, ordinal: Int): Array[Byte] = {
    out.length = 0
    value.write(input, ordinal, out)
    val bytes = out.toArray
    if (complement) complementAll(bytes)
    bytes
  }

  /** Decodes the bytes from `offset` to the end into field `ordinal` of `row`. A decoded string may
    * share the array `bytes`.
    */
  def decode(bytes: Array[Byte], offset: Int, row: InternalRow, ordinal: Int): Unit = {
    val in =
      if (complement) {
        val complemented = Arrays.copyOfRange(bytes, offset, bytes.length)
        complementAll(complemented)
        ByteBuffer.wrap(complemented)
      } else
        ByteBuffer.wrap(bytes, offset, bytes.length - offset)
    value.read(in, row, ordinal)
  }

  private def complementAll(bytes: Array[Byte]): Unit = {
    var i = 0
    while (i < bytes.length) {
      bytes(i) = (~bytes(i)).toByte
      i += 1
    }
  }
}

private[keystate] object OrderedKeyCodec {

  /** @throws java.lang.IllegalArgumentException
    *   if the type is, or contains, a type whose order bytes can't have
    */
  def apply(dataType: DataType, order: StoredOrder = StoredOrder.Natural): OrderedKeyCodec = {
    val descending = order == StoredOrder.Descending
    val codec = partCodec(dataType, order != StoredOrder.Bytewise, last = !descending)
    new OrderedKeyCodec(codec, descending)
  }

  /** Chooses by the physical type, because Spark defines its ordering on that.
    *
    * @param signed
    *   whether negative numbers sort before the others
    * @param last
    *   whether nothing follows the value, so that it ends where the bytes end
    */
  private def partCodec(dataType: DataType, signed: Boolean, last: Boolean): KeyPartCodec = {
    def nested(dataType: DataType) = partCodec(dataType, signed, last = false)

    dataType match {
      case userDefined: UserDefinedType[_] => partCodec(userDefined.sqlType, signed, last)
      case _ =>
        PhysicalDataType(dataType) match {
          case PhysicalBooleanType => BooleanCodec
          case PhysicalByteType => new ByteCodec(signed)
          case PhysicalShortType => new ShortCodec(signed)
          case PhysicalIntegerType => new IntCodec(signed)
          case PhysicalLongType => new LongCodec(signed)
          case PhysicalFloatType => new FloatCodec(signed)
          case PhysicalDoubleType => new DoubleCodec(signed)
          case PhysicalDecimalType(precision, scale) if precision <= Decimal.MAX_LONG_DIGITS =>
            new SmallDecimalCodec(precision, scale, signed)
          case PhysicalDecimalType(precision, scale) =>
            new LargeDecimalCodec(precision, scale, signed)
          case PhysicalStringType(UTF8_BINARY_COLLATION_ID) => new StringCodec(last)
          case PhysicalBinaryType => new BinaryCodec(last)
          case PhysicalStructType(fields) =>
            new StructCodec(fields.map(field => nested(field.dataType)))
          case PhysicalArrayType(elementType, _) => new ArrayCodec(nested(elementType))
          case _ =>
            throw new IllegalArgumentException(
              s"${dataType.catalogString} cannot be the type, or within the type, of a user key: " +
                "its values have no order that their bytes can follow"
            )
        }
    }
  }
}
