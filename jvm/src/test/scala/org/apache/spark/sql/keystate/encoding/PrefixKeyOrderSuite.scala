package org.apache.spark.sql.keystate.encoding

import java.util.Arrays

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.{Ascending, BoundReference}
import org.apache.spark.sql.catalyst.expressions.{
  GenericInternalRow, InterpretedOrdering, SortOrder, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.apache.spark.sql.keystate.store.ProviderFixture

/** The order of keys, with the bytes that Spark's encoder really makes. */
class PrefixKeyOrderSuite extends AnyFunSuite with ProviderFixture {
  private val seed = sys.env.get("KEYSTATE_TEST_SEED").fold(Random.nextLong())(_.toLong)
  private val random = new Random(seed)
  info(s"KEYSTATE_TEST_SEED=$seed repeats this run")

  private val numbers = Seq(
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType(),
    YearMonthIntervalType(),
    DecimalType(9, 2),
    DecimalType(18, 0)
  )

  private def bits: Long = random.nextLong() >> random.nextInt(64)

  private def valueOf(dataType: DataType): Any = dataType match {
    case BooleanType => random.nextBoolean()
    case ByteType => bits.toByte
    case ShortType => bits.toShort
    case IntegerType | DateType | _: YearMonthIntervalType => bits.toInt
    case StringType => UTF8String.fromBytes(random.nextBytes(random.nextInt(20)))
    case decimal: DecimalType =>
      val digits = BigInt(10).pow(decimal.precision).toLong
      Decimal(bits % digits, decimal.precision, decimal.scale)
    case _ => bits
  }

  private def schemaOf(columns: Seq[DataType]): StructType = StructType(columns.zipWithIndex.map {
    case (each, i) => StructField(s"c$i", each)
  })

  private def rowsOf(columns: Seq[DataType], count: Int, nulls: Boolean): Seq[UnsafeRow] = {
    val project = UnsafeProjection.create(columns.toArray)
    Seq.fill(count) {
      val values = columns.map(c => if (nulls && random.nextInt(4) == 0) null else valueOf(c))
      project(new GenericInternalRow(values.toArray[Any])).copy()
    }
  }

  private def encoderOf(columns: Seq[DataType], prefix: Int): RocksDBKeyStateEncoder = {
    val spec = PrefixKeyScanStateEncoderSpec(schemaOf(columns), prefix)
    RocksDBStateEncoder.getKeyEncoder(dataEncoder(spec), spec, useColumnFamilies = true)
  }

  private def dataEncoder(spec: KeyStateEncoderSpec): RocksDBDataEncoder =
    RocksDBStateStoreProvider.getDataEncoder(
      "unsaferow",
      StateRowEncoderCacheKey("run", 0L, 0, s"${random.nextLong()}", "cf"),
      spec,
      valueSchema,
      None,
      Some("cf")
    )

  private val prefixes =
    numbers.map(Seq(_)) ++ Seq.fill(20)(
      Seq.fill(2 + random.nextInt(3))(numbers(random.nextInt(12)))
    ) ++
      Seq(Seq.fill(70)(LongType), Seq(StringType))

  test("keys go in the order by which Spark sorts their prefixes") {
    prefixes.foreach { prefix =>
      val columns = prefix :+ LongType :+ StringType
      val encoder = encoderOf(columns, prefix.size)
      val order = PrefixKeyOrder.of(prefix).get
      // Strings of one padded length are in order, as keys begin with the length of the prefix.
      val rows = rowsOf(columns, 200, nulls = false).filter { row =>
        prefix != Seq(StringType) || (row.getUTF8String(0).numBytes + 7) / 8 == 2
      }
      val spark = new InterpretedOrdering(prefix.zipWithIndex.map { case (column, i) =>
        SortOrder(BoundReference(i, column, nullable = true), Ascending)
      })
      val keys = rows.map { row =>
        val key = encoder.encodeKey(row)
        order.sort(key)
        row -> key
      }
      val sorted = keys.sortWith((a, b) => Arrays.compareUnsigned(a._2, b._2) < 0).map(_._1)
      sorted.zip(sorted.drop(1)).foreach { case (one, next) =>
        assert(
          prefix == Seq(StringType) && one
            .getUTF8String(0)
            .numBytes != next.getUTF8String(0).numBytes ||
            spark.compare(one, next) <= 0,
          s"$prefix: $one, $next"
        )
      }
    }
  }

  test("a key comes back as it was, and begins with its prefix") {
    prefixes.foreach { prefix =>
      val columns = prefix :+ LongType :+ StringType
      val encoder = encoderOf(columns, prefix.size)
      val order = PrefixKeyOrder.of(prefix).get
      val project = UnsafeProjection.create(prefix.zipWithIndex.map { case (column, i) =>
        BoundReference(i, column, nullable = true)
      })
      rowsOf(columns, 100, nulls = true).foreach { row =>
        val plain = encoder.encodeKey(row)
        val key = plain.clone
        order.sort(key)
        assert(Arrays.equals(order.unsorted(key), plain))
        val beginning = encoder.encodePrefixKey(project(row))
        order.sort(beginning)
        assert(key.startsWith(beginning), s"$prefix: $row")
        assert(encoder.decodeKey(order.unsorted(key)) == row)
      }
    }
  }

  test("keys of other columns have no such order") {
    Seq(
      Seq(DoubleType),
      Seq(BinaryType),
      Seq(StringType, LongType),
      Seq(LongType, StringType),
      Seq(DecimalType(19, 0)),
      Seq(StringType("UTF8_LCASE")),
      Seq(schemaOf(Seq(LongType)))
    ).foreach(columns => assert(PrefixKeyOrder.of(columns).isEmpty, columns))
  }
}
