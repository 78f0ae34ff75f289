package org.apache.spark.sql.keystate.encoding

import java.nio.ByteBuffer
import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.types._
import org.apache.spark.sql.catalyst.util.CollationFactory.UTF8_BINARY_COLLATION_ID
import org.apache.spark.sql.types.{DataType, Decimal, UserDefinedType}

/** In which order the bytes of an [[OrderedKeyCodec]] sort. */
private[keystate] sealed abstract class StoredOrder(val name: String)

private[keystate] object StoredOrder {

  /** Spark's ascending order of the type, nulls first. */
  case object Natural extends StoredOrder("natural")

  /** The reverse of [[Natural]]. */
  case object Descending extends StoredOrder("descending")

  /** The order of Flink's BytewiseComparator: [[Natural]], but negative numbers sort after the
    * others, and floating point ones among themselves by magnitude.
    */
  case object Bytewise extends StoredOrder("bytewise")

  def byName(name: String): StoredOrder = Seq(Natural, Descending, Bytewise)
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"unknown key order '$name'"))
}

/** The user key that ends a stored entry key: bytes whose unsigned order is a [[StoredOrder]] of the
  * key's type. Keys that Spark holds equal have the same bytes.
  *
  * The bytes are an on-disk format. Numbers are big-endian:
  *   - boolean: 1 byte, 0 or 1;
  *   - byte, short, int, long: 1, 2, 4 or 8 bytes, the sign bit flipped. A date and a year-month
  *     interval is an int; a timestamp, timestamp_ntz, time and day-time interval is a long;
  *   - float, double: the IEEE 754 bits, with the sign bit flipped if it is clear, and else all of
  *     them. -0.0 is stored as 0.0, and all NaNs are stored as Java's;
  *   - decimal: the unscaled value, the sign bit flipped, as a long up to precision 18 and in 16
  *     bytes above it;
  *   - string, binary: when it is the whole key, its bytes as they are, which nothing follows.
  *     Inside a struct or array each 0x00 is stored as 0x00 0xFF, and 0x00 0x01 ends it;
  *   - struct: per field 0x00 for null, or 0x01 and the value. Declared nullability makes no
  *     difference, as it may change between runs;
  *   - array: per element 0x01 for null, or 0x02 and the value; 0x00 ends it;
  *   - user defined type: its SQL type.
  *
  * `Descending` stores the complement of these bytes. Complementing reverses the order only if no
  * encoding is the prefix of another, so there a string or binary is always escaped and ended.
  *
  * `Bytewise` flips no sign bits and no bits of negative floating point numbers.
  *
  * An instance reuses a buffer: one thread at a time.
  */
private[keystate] final class OrderedKeyCodec private (value: KeyPartCodec, complement: Boolean) {
  private val out = new KeyWriter

  /** The bytes, a fresh array, of the value at `ordinal`, which must not be null. */
  def encode(input: SpecializedGetters, ordinal: Int): Array[Byte] = {
    out.length = 0
    value.write(input, ordinal, out)
    val bytes = out.toArray
    if (complement) complementAll(bytes)
    bytes
  }

  /** Sets field `ordinal` of `row` to what the bytes from `offset` to the end encode. A string may
    * share `bytes`.
    */
  def decode(bytes: Array[Byte], offset: Int, row: InternalRow, ordinal: Int): Unit = {
    val in =
      if (complement) {
        val complemented = Arrays.copyOfRange(bytes, offset, bytes.length)
        complementAll(complemented)
        ByteBuffer.wrap(complemented)
      } else {
        ByteBuffer.wrap(bytes, offset, bytes.length - offset)
      }
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
    *   if the type is or contains one without an order that bytes can follow
    */
  def apply(dataType: DataType, order: StoredOrder = StoredOrder.Natural): OrderedKeyCodec = {
    val descending = order == StoredOrder.Descending
    val codec = partCodec(dataType, order != StoredOrder.Bytewise, last = !descending)
    new OrderedKeyCodec(codec, descending)
  }

  /** Dispatches on the physical type, since that is what Spark's ordering is defined on.
    *
    * @param signed
    *   whether negative numbers sort before the others
    * @param last
    *   whether the value ends where the bytes end
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
