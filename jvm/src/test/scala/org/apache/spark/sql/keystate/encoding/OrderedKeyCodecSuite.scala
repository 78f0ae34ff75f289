package org.apache.spark.sql.keystate.encoding

import java.math.BigInteger
import java.util.{Arrays, HexFormat}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  GenericInternalRow, SpecificInternalRow, UnsafeProjection
}
import org.apache.spark.sql.catalyst.util.{GenericArrayData, TypeUtils}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.apache.spark.sql.keystate.encoding.StoredOrder.{Bytewise, Descending, Natural}

class OrderedKeyCodecSuite extends AnyFunSuite {
  private val seed = sys.env.get("KEYSTATE_TEST_SEED").fold(Random.nextLong())(_.toLong)
  private val random = new Random(seed)
  info(s"KEYSTATE_TEST_SEED=$seed repeats this run")

  private val orders = Seq[StoredOrder](Natural, Descending, Bytewise)

  private val integerTypes = Seq(
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DateType,
    TimestampType,
    TimestampNTZType,
    TimeType(6),
    DayTimeIntervalType(),
    YearMonthIntervalType()
  )
  private val decimalTypes =
    Seq((1, 0), (9, 2), (18, 0), (18, 18), (19, 0), (20, 3), (38, 0), (38, 18), (38, 38)).map {
      case (precision, scale) => DecimalType(precision, scale)
    }
  private val numericTypes = integerTypes ++ decimalTypes ++ Seq(FloatType, DoubleType)
  private val atomicTypes =
    numericTypes ++ Seq(BooleanType, StringType, BinaryType, VarcharType(9), CharType(9))
  private val nestedTypes = Seq(
    struct(),
    struct(StringType),
    struct(StringType, LongType),
    struct(BinaryType, BinaryType),
    struct(struct(IntegerType, StringType), struct(BooleanType), DecimalType(30, 2)),
    ArrayType(ArrayType(BinaryType)),
    ArrayType(struct(StringType, DoubleType)),
    struct(ArrayType(StringType), ArrayType(FloatType), StringType)
  )
  // every atomic type is also tried where null is allowed and something follows
  private val types = atomicTypes ++ nestedTypes ++ atomicTypes.map(struct(_, BooleanType)) ++
    atomicTypes.map(ArrayType(_))

  private def struct(types: DataType*): StructType = StructType(types.zipWithIndex.map {
    case (dataType, i) => StructField(s"f$i", dataType)
  })

  for (dataType <- types)
    test(s"order and round trip: ${dataType.catalogString}") {
      val values = edges(dataType) ++ Seq.fill(100)(generate(dataType))
      val ordering = TypeUtils.getInterpretedOrdering(dataType)
      val codecs = orders.map(order => order -> OrderedKeyCodec(dataType, order))
      val encoded = for (value <- values) yield {
        val encodings = codecs.map { case (order, codec) => order -> encode(codec, value) }.toMap
        for ((order, codec) <- codecs) {
          val bytes = encodings(order)
          val decoded = decode(codec, dataType, bytes)
          assert(ordering.compare(value, decoded) == 0, s"$order: $value, $decoded")
          assert(Arrays.equals(encode(codec, decoded), bytes), s"$order: $value, $decoded")
        }
        (value, encodings)
      }
      for ((a, as) <- encoded; (b, bs) <- encoded) {
        val expected = ordering.compare(a, b).sign
        def compare(order: StoredOrder) = Arrays.compareUnsigned(as(order), bs(order)).sign
        assert(compare(Natural) == expected, s"$a, $b")
        assert(compare(Descending) == -expected, s"$a, $b")
        assert((compare(Bytewise) == 0) == (expected == 0), s"$a, $b")
      }
    }

  for (dataType <- numericTypes)
    test(s"bytewise order has negatives last: ${dataType.catalogString}") {
      val ordering = TypeUtils.getInterpretedOrdering(dataType)
      val zero = zeroOf(dataType)
      val (negatives, others) = (edges(dataType) ++ Seq.fill(50)(generate(dataType)))
        .partition(ordering.lt(_, zero))
      val codec = OrderedKeyCodec(dataType, Bytewise)
      def compare(a: Any, b: Any) = Arrays.compareUnsigned(encode(codec, a), encode(codec, b)).sign
      // two's complement keeps the order among negatives, IEEE 754 reverses it
      val isFloating = dataType == FloatType || dataType == DoubleType
      for (a <- negatives; b <- others) assert(compare(a, b) > 0, s"$a, $b")
      for (a <- others; b <- others)
        assert(compare(a, b) == ordering.compare(a, b).sign, s"$a, $b")
      for (a <- negatives; b <- negatives) {
        val expected = ordering.compare(a, b).sign
        assert(compare(a, b) == (if (isFloating) -expected else expected), s"$a, $b")
      }
    }

  test("equal numbers have the same bytes") {
    for (order <- orders) {
      def distinct(dataType: DataType, values: Any*) =
        values.map(value => hex(encode(OrderedKeyCodec(dataType, order), value))).distinct.size
      assert(distinct(FloatType, -0.0f, 0.0f) == 1)
      assert(distinct(DoubleType, -0.0, 0.0) == 1)
      assert(distinct(FloatType, floatNaNs: _*) == 1)
      assert(distinct(DoubleType, doubleNaNs: _*) == 1)
      assert(distinct(DecimalType(9, 2), Decimal("1.5"), Decimal("1.50"), Decimal("1.500")) == 1)
      assert(distinct(DecimalType(30, 2), Decimal("7"), Decimal(7), Decimal("7.000")) == 1)
    }
  }

  test("the bytes are as documented") {
    def check(dataType: DataType, value: Any, natural: String, bytewise: String = null) = {
      assert(hex(encode(OrderedKeyCodec(dataType, Natural), value)) == natural)
      val expected = Option(bytewise).getOrElse(natural)
      assert(hex(encode(OrderedKeyCodec(dataType, Bytewise), value)) == expected)
    }
    check(BooleanType, true, "01")
    check(ByteType, -1.toByte, "7f", "ff")
    check(ShortType, 258.toShort, "8102", "0102")
    check(IntegerType, -2, "7ffffffe", "fffffffe")
    check(DateType, 1, "80000001", "00000001")
    check(LongType, 1L, "8000000000000001", "0000000000000001")
    check(TimestampType, -1L, "7fffffffffffffff", "ffffffffffffffff")
    check(FloatType, 1.0f, "bf800000", "3f800000")
    check(DoubleType, -1.0, "400fffffffffffff", "bff0000000000000")
    check(DoubleType, Double.NaN, "fff8000000000000", "7ff8000000000000")
    check(DecimalType(5, 2), Decimal("-0.01"), "7fffffffffffffff", "ffffffffffffffff")
    check(
      DecimalType(19, 2),
      Decimal("1.00"),
      "80000000000000000000000000000064",
      "00000000000000000000000000000064"
    )
    check(StringType, utf8("a\u0000b"), "610062")
    check(StringType, utf8(""), "")
    check(BinaryType, Array[Byte](0, -1), "00ff")
    check(
      struct(StringType, ByteType, ByteType),
      InternalRow(utf8("a\u0000"), null, 1.toByte),
      "01" + "6100ff0001" + "00" + "0181",
      "01" + "6100ff0001" + "00" + "0101"
    )
    check(
      ArrayType(ByteType),
      new GenericArrayData(Array[Any](1.toByte, null)),
      "0281" + "01" + "00",
      "0201" + "01" + "00"
    )
    assert(hex(encode(OrderedKeyCodec(StringType, Descending), utf8("a\u0000"))) == "9eff00fffe")
    assert(hex(encode(OrderedKeyCodec(LongType, Descending), 1L)) == "7ffffffffffffffe")
  }

  test("declared nullability does not change the bytes") {
    val nullable = StructType.fromDDL("a INT, b ARRAY<STRING>")
    val required = StructType(
      Seq(
        StructField("a", IntegerType, nullable = false),
        StructField("b", ArrayType(StringType, containsNull = false), nullable = false)
      )
    )
    val value = InternalRow(1, new GenericArrayData(Array[Any](utf8("x"))))
    val bytes = Seq(nullable, required).map(t => hex(encode(OrderedKeyCodec(t), value)))
    assert(bytes.distinct.size == 1)
  }

  test("a user defined type is encoded as its SQL type") {
    val userDefined = struct(new PythonUserDefinedType(struct(StringType), "module.Class", ""))
    val value = InternalRow(InternalRow(utf8("x")))
    val codec = OrderedKeyCodec(userDefined)
    val bytes = encode(codec, value)
    assert(Arrays.equals(bytes, encode(OrderedKeyCodec(struct(struct(StringType))), value)))
    assert(decode(codec, userDefined, bytes) == value)
  }

  test("any bytes are a string") {
    val value = UTF8String.fromBytes(Array[Byte](-1, 0, -64, -128))
    for (order <- orders) {
      val codec = OrderedKeyCodec(StringType, order)
      assert(decode(codec, StringType, encode(codec, value)) == value)
    }
  }

  test("a decimal that the type cannot hold is refused") {
    val codec = OrderedKeyCodec(DecimalType(3, 1))
    intercept[ArithmeticException](encode(codec, Decimal("100")))
  }

  test("a type without an order is refused by name") {
    val unsupported = Seq(
      MapType(IntegerType, StringType) -> "map<int,string>",
      VariantType -> "variant",
      CalendarIntervalType -> "interval",
      NullType -> "void",
      GeometryType(4326) -> "geometry(4326)",
      GeographyType(4326) -> "geography(4326)",
      StringType("UTF8_LCASE") -> "string collate UTF8_LCASE",
      StringType("UTF8_BINARY_RTRIM") -> "string collate UTF8_BINARY_RTRIM",
      StringType("UNICODE") -> "string collate UNICODE",
      ObjectType(classOf[String]) -> "java.lang.String"
    )
    for ((dataType, name) <- unsupported; order <- orders)
      for (t <- Seq(dataType, struct(IntegerType, dataType), ArrayType(struct(dataType)))) {
        val error = intercept[IllegalArgumentException](OrderedKeyCodec(t, order))
        assert(error.getMessage.startsWith(s"$name cannot be"), error.getMessage)
      }
  }

  test("unsafe rows are encoded alike") {
    for (dataType <- types) {
      val project = UnsafeProjection.create(Array[DataType](LongType, dataType))
      val codec = OrderedKeyCodec(dataType)
      for (value <- edges(dataType) ++ Seq.fill(20)(generate(dataType))) {
        val row = project(InternalRow(1L, value))
        assert(Arrays.equals(codec.encode(row, 1), encode(codec, value)), s"$dataType: $value")
      }
    }
  }

  /** Encodes from a row and from an array, which must agree. */
  private def encode(codec: OrderedKeyCodec, value: Any): Array[Byte] = {
    val bytes = codec.encode(new GenericInternalRow(Array[Any](null, value)), 1)
    assert(Arrays.equals(bytes, codec.encode(new GenericArrayData(Array[Any](value)), 0)))
    bytes
  }

  /** Decodes from the middle of an array into two kinds of rows, which must agree. */
  private def decode(codec: OrderedKeyCodec, dataType: DataType, bytes: Array[Byte]): Any = {
    val schema = Array[DataType](IntegerType, dataType)
    val ordering = TypeUtils.getInterpretedOrdering(dataType)
    val stored = Array[Byte](0, 1, -1) ++ bytes
    val generic = new GenericInternalRow(2)
    val specific = new SpecificInternalRow(schema.toSeq)
    codec.decode(stored, 3, generic, 1)
    codec.decode(stored, 3, specific, 1)
    val value = generic.get(1, dataType)
    assert(ordering.compare(value, specific.get(1, dataType)) == 0)
    value
  }

  private def utf8(string: String) = UTF8String.fromString(string)

  private def hex(bytes: Array[Byte]) = HexFormat.of.formatHex(bytes)

  private val floatNaNs = Seq(0x7fc00000, 0x7f800001, 0xffc00000, 0xffffffff)
    .map(java.lang.Float.intBitsToFloat)
  private val doubleNaNs =
    Seq(0x7ff8000000000000L, 0x7ff0000000000001L, 0xfff8000000000000L, -1L)
      .map(java.lang.Double.longBitsToDouble)

  private def zeroOf(dataType: DataType): Any = dataType match {
    case ByteType => 0.toByte
    case ShortType => 0.toShort
    case FloatType => 0.0f
    case DoubleType => 0.0
    case DecimalType.Fixed(precision, scale) => Decimal(0L, precision, scale)
    case IntegerType | DateType => 0
    case _: YearMonthIntervalType => 0
    case _ => 0L
  }

  /** Values near which an encoding may go wrong. */
  private def edges(dataType: DataType): Seq[Any] = dataType match {
    case BooleanType => Seq(false, true)
    case ByteType => Seq(Byte.MinValue, -1, 0, 1, Byte.MaxValue).map(_.toByte)
    case ShortType => Seq(Short.MinValue, -256, -1, 0, 1, 255, Short.MaxValue).map(_.toShort)
    case IntegerType | DateType | _: YearMonthIntervalType =>
      Seq(Int.MinValue, -65536, -256, -1, 0, 1, 255, 65536, Int.MaxValue)
    case FloatType =>
      val positive = Seq(0.0f, Float.MinPositiveValue, 1e-40f, 1.0f, 1.5f, Float.MaxValue)
      (Float.PositiveInfinity +: positive).flatMap(x => Seq(x, -x)) ++ floatNaNs
    case DoubleType =>
      val positive = Seq(0.0, Double.MinPositiveValue, 1e-310, 1.0, 1.5, Double.MaxValue)
      (Double.PositiveInfinity +: positive).flatMap(x => Seq(x, -x)) ++ doubleNaNs
    case DecimalType.Fixed(precision, scale) =>
      val bound = BigInteger.TEN.pow(precision)
      val longBound = BigInteger.ONE.shiftLeft(63)
      val near = Seq(BigInteger.ZERO, bound, longBound, longBound.shiftLeft(1)).flatMap(x =>
        Seq(x, x.negate).flatMap(y => (-1L to 1L).map(d => y.add(BigInteger.valueOf(d))))
      )
      near.filter(_.abs.compareTo(bound) < 0).map(decimal(_, precision, scale))
    case _: StringType =>
      val strings =
        Seq("", "\u0000", "\u0000\u0000", "\u0001", "a", "a\u0000", "a\u0000b", "a\u0001")
      (strings ++ Seq("ab", "b", "\u00e9", "\u07ff", "\uffff", "\ud83d\ude00")).map(utf8)
    case BinaryType =>
      val bytes = Seq[Byte](0, 1, Byte.MaxValue, Byte.MinValue, -1)
      val pairs = for (a <- bytes; b <- bytes) yield Array(a, b)
      Array.emptyByteArray +: (bytes.map(Array(_)) ++ pairs)
    case StructType(fields) =>
      val candidates = fields.map(field => null +: edges(field.dataType).take(12))
      val first = fields.map(field => edges(field.dataType).head)
      new GenericInternalRow(first.map(x => x: Any)) +: fields.indices.flatMap(i =>
        candidates(i).map(x => new GenericInternalRow(first.map(x => x: Any).updated(i, x)))
      )
    case ArrayType(elementType, _) =>
      val elements = null +: edges(elementType).take(6)
      val pairs = for (a <- elements; b <- elements) yield Array[Any](a, b)
      (Array.empty[Any] +: (elements.map(Array[Any](_)) ++ pairs)).map(new GenericArrayData(_))
    case _ => Seq(Long.MinValue, -65536L, -256L, -1L, 0L, 1L, 255L, 1L << 32, Long.MaxValue)
  }

  private def generate(dataType: DataType): Any = dataType match {
    case StructType(fields) =>
      new GenericInternalRow(fields.map(field => generateOrNull(field.dataType)))
    case ArrayType(elementType, _) =>
      new GenericArrayData(Array.fill[Any](random.nextInt(4))(generateOrNull(elementType)))
    case _ if random.nextInt(3) == 0 =>
      val candidates = edges(dataType)
      candidates(random.nextInt(candidates.size))
    case BooleanType => random.nextBoolean()
    case ByteType => random.nextInt().toByte
    case ShortType => random.nextInt().toShort
    case FloatType => java.lang.Float.intBitsToFloat(random.nextInt())
    case DoubleType => java.lang.Double.longBitsToDouble(random.nextLong())
    case DecimalType.Fixed(precision, scale) =>
      val bits = random.nextInt(BigInteger.TEN.pow(precision).bitLength) + 1
      val magnitude = new BigInteger(bits, random.self).mod(BigInteger.TEN.pow(precision))
      decimal(if (random.nextBoolean()) magnitude else magnitude.negate, precision, scale)
    case _: StringType =>
      utf8(Seq.fill(random.nextInt(4))(edges(StringType)(random.nextInt(14))).mkString)
    case BinaryType =>
      Array.fill(random.nextInt(6))((random.nextInt(5) - 2).toByte)
    case IntegerType | DateType | _: YearMonthIntervalType =>
      random.nextInt() >> random.nextInt(32)
    case _ => random.nextLong() >> random.nextInt(64)
  }

  private def generateOrNull(dataType: DataType): Any =
    if (random.nextInt(4) == 0) null else generate(dataType)

  private def decimal(unscaled: BigInteger, precision: Int, scale: Int) =
    Decimal(new java.math.BigDecimal(unscaled, scale), precision, scale)
}
