package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

import keystate.backend.StateFamily

/** Makes the keys of Spark's prefix encoding go in the order by which Spark sorts rows, so that
  * rows sorted by their keys find what is stored side by side. Part of the file format:
  *
  * {{{
  * [int32 little-endian n][n bytes: version, row of the prefix columns][row of the other columns]
  * }}}
  *
  * Of a row with numbers only, the word of each is big-endian instead, with its sign bit flipped. In
  * a row with one string, the word that tells the string's place comes after the string. Nothing
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

  /** That of the keys of a new family. None if there is none for them: Avro has no words. */
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

  /** Which byte of a column's word has the sign, when the word is big-endian. `WordBytes` if none.
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
      var i = 0
      while (i < WordBytes / 2) {
        val byte = key(at + i)
        key(at + i) = key(at + WordBytes - 1 - i)
        key(at + WordBytes - 1 - i) = byte
        i += 1
      }
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
      4 + ((key(0) & 0xff) | (key(1) & 0xff) << 8 | (key(2) & 0xff) << 16 | key(3) << 24)
  }
}

/** How the keys of one of Spark's families are stored: as Spark's encoder makes them, or in the order
  * of their prefixes.
  *
  * @param order
  *   that of a new family
  * @param stored
  *   the family's properties
  */
private[keystate] final class SparkKeys(
    encoder: RocksDBKeyStateEncoder,
    order: Option[PrefixKeyOrder],
    stored: Map[String, String]
) {
  private val own = order.filter(_ => stored.contains(StateFamily.Sorted))
  require(
    own.nonEmpty || !stored.contains(StateFamily.Sorted),
    "the family's keys are stored in an order that keys of this schema and encoding do not have"
  )

  def supportPrefixKeyScan: Boolean = encoder.supportPrefixKeyScan

  def encodeKey(key: UnsafeRow): Array[Byte] = sorted(encoder.encodeKey(key))

  def encodePrefixKey(prefix: UnsafeRow): Array[Byte] = sorted(encoder.encodePrefixKey(prefix))

  def decodeKey(key: Array[Byte]): UnsafeRow =
    encoder.decodeKey(if (own.isEmpty) key else own.get.unsorted(key))

  // The encoder makes a new array for each key.
  private def sorted(key: Array[Byte]): Array[Byte] = {
    if (own.nonEmpty) own.get.sort(key)
    key
  }
}
