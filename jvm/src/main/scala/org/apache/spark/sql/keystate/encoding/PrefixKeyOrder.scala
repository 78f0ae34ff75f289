package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/** Orders the keys of Spark's prefix encoding like Spark sorts rows, so that rows sorted by their
  * keys read adjacent entries. Part of the file format:
  *
  * {{{
  * [int32 little-endian n][n bytes: version, row of the prefix columns][row of the other columns]
  * }}}
  *
  * In a row with numbers only, each number's word is big-endian instead, with its sign bit flipped.
  * In a row with one string, the word with the string's position comes after the string. Nothing
  * else changes, so all keys with one prefix still begin with the same bytes.
  *
  * Relies on `PrefixKeyScanStateEncoder`, and on `UnsafeRow`: null bits, a word for each column,
  * then bytes.
  */
private[keystate] sealed abstract class PrefixKeyOrder {

  /** Changes the bytes of a key, or of a prefix, in place. */
  def sort(key: Array[Byte]): Unit

  /** The bytes as Spark's encoder made them, in an array of their own. */
  def unsorted(key: Array[Byte]): Array[Byte]
}

private[keystate] object PrefixKeyOrder {
  private final val WordBytes = 8

  // After the length and the version byte.
  private final val RowStart = 5

  /** The order for the keys of a family. None if there is none: Avro has no words. */
  def of(spec: KeyStateEncoderSpec, rows: RocksDBDataEncoder): Option[PrefixKeyOrder] =
    (spec, rows) match {
      case (PrefixKeyScanStateEncoderSpec(columns, count), _: UnsafeRowDataEncoder) =>
        of(columns.take(count).map(_.dataType))
      case _ => None
    }

  private[encoding] def of(columns: Seq[DataType]): Option[PrefixKeyOrder] = {
    val signs = columns.flatMap(signByte)
    if (signs.length == columns.length) Some(new Numbers(signs.toArray))
    else if (columns == Seq(StringType)) Some(OneString)
    else None
  }

  /** The index of a column's byte with the sign, when its word is big-endian. `WordBytes` if it has
    * no sign.
    */
  private def signByte(column: DataType): Option[Int] = column match {
    case BooleanType => Some(WordBytes)
    case ByteType => Some(7)
    case ShortType => Some(6)
    case IntegerType | DateType | _: YearMonthIntervalType => Some(4)
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType => Some(0)
    case decimal: DecimalType if decimal.precision <= Decimal.MAX_LONG_DIGITS => Some(0)
    case _ => None
  }

  private final class Numbers(signs: Array[Int]) extends PrefixKeyOrder {
    private val first = RowStart + UnsafeRow.calculateBitSetWidthInBytes(signs.length)

    override def sort(key: Array[Byte]): Unit = eachWord { (at, sign) =>
      reverse(key, at)
      flip(key, at, sign)
    }

    override def unsorted(key: Array[Byte]): Array[Byte] = {
      val plain = key.clone
      eachWord { (at, sign) =>
        flip(plain, at, sign)
        reverse(plain, at)
      }
      plain
    }

    private def eachWord(change: (Int, Int) => Unit): Unit = {
      var i = 0
      while (i < signs.length) {
        change(first + i * WordBytes, signs(i))
        i += 1
      }
    }

    private def reverse(key: Array[Byte], at: Int): Unit = {
      val offset = Platform.BYTE_ARRAY_OFFSET + at.toLong
      Platform.putLong(key, offset, java.lang.Long.reverseBytes(Platform.getLong(key, offset)))
    }

    private def flip(key: Array[Byte], at: Int, sign: Int): Unit =
      if (sign < WordBytes) key(at + sign) = (key(at + sign) ^ 0x80).toByte
  }

  private object OneString extends PrefixKeyOrder {
    private val word = RowStart + UnsafeRow.calculateBitSetWidthInBytes(1)

    override def sort(key: Array[Byte]): Unit = {
      val place = key.slice(word, word + WordBytes)
      val string = prefixEnd(key) - word - WordBytes
      System.arraycopy(key, word + WordBytes, key, word, string)
      System.arraycopy(place, 0, key, word + string, WordBytes)
    }

    override def unsorted(key: Array[Byte]): Array[Byte] = {
      val plain = key.clone
      val string = prefixEnd(key) - word - WordBytes
      System.arraycopy(key, word + string, plain, word, WordBytes)
      System.arraycopy(key, word, plain, word + WordBytes, string)
      plain
    }

    private def prefixEnd(key: Array[Byte]): Int =
      4 + Platform.getInt(key, Platform.BYTE_ARRAY_OFFSET.toLong)
  }
}
