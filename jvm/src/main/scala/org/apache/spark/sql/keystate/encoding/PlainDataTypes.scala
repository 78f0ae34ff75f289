package org.apache.spark.sql.keystate.encoding

import java.math.{BigDecimal => JBigDecimal, BigInteger}
import java.time.{Duration, LocalDate, LocalDateTime, LocalTime, ZoneId, ZoneOffset}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapBuilder, DateTimeUtils, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.apache.spark.sql.keystate.encoding.PlainData.{Items, Moment, Named, Pairs}

/** Converts plain data to fields of rows, and back. A struct is a Row in Python, or a tuple if its
  * fields are named like those of Scala's tuples; a timestamp is a datetime in UTC, or without a
  * zone if it is a `timestamp_ntz`.
  */
private[keystate] object PlainDataTypes {

  /** A value that does not fit a type; the message says why. */
  final class Misfit(message: String) extends Exception(message)

  /** Throws if there are values of a type that are no plain data. */
  def check(dataType: DataType): Unit = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType |
        StringType | BinaryType | DateType | TimestampType | TimestampNTZType | NullType =>
    case _: DecimalType | _: DayTimeIntervalType | _: TimeType =>
    case ArrayType(element, _) => check(element)
    case MapType(key, value, _) =>
      check(key)
      check(value)
    case struct: StructType => struct.foreach(field => check(field.dataType))
    case other => throw new Misfit(s"${other.sql} is no plain data")
  }

  /** The field of a row as plain data. Throws if it has a time that Python does not have. */
  def toPlain(row: SpecializedGetters, at: Int, dataType: DataType): Any =
    if (row.isNullAt(at)) null
    else
      dataType match {
        case BooleanType => row.getBoolean(at)
        case ByteType => BigInteger.valueOf(row.getByte(at).toLong)
        case ShortType => BigInteger.valueOf(row.getShort(at).toLong)
        case IntegerType => BigInteger.valueOf(row.getInt(at).toLong)
        case LongType => BigInteger.valueOf(row.getLong(at))
        case FloatType => row.getFloat(at).toDouble
        case DoubleType => row.getDouble(at)
        case StringType => row.getUTF8String(at).toString
        case BinaryType => row.getBinary(at)
        case DecimalType.Fixed(precision, scale) =>
          row.getDecimal(at, precision, scale).toJavaBigDecimal
        case DateType => LocalDate.ofEpochDay(row.getInt(at).toLong)
        case TimestampType => Moment(dateTime(row.getLong(at)), Some(ZoneOffset.UTC))
        case TimestampNTZType => Moment(dateTime(row.getLong(at)), None)
        case _: TimeType => LocalTime.ofNanoOfDay(row.getLong(at))
        case _: DayTimeIntervalType => micros(row.getLong(at))
        case ArrayType(element, _) =>
          val array = row.getArray(at)
          Items(Vector.tabulate(array.numElements())(toPlain(array, _, element)))
        case MapType(key, value, _) =>
          val map = row.getMap(at)
          val (keys, values) = (map.keyArray(), map.valueArray())
          Pairs(Vector.tabulate(map.numElements()) { i =>
            (toPlain(keys, i, key), toPlain(values, i, value))
          })
        case struct: StructType =>
          val inner = row.getStruct(at, struct.length)
          val values = Vector.tabulate(struct.length)(i => toPlain(inner, i, struct(i).dataType))
          if (isTuple(struct)) Items(values, isTuple = true)
          else Named(struct.fieldNames.toSeq, values)
        case other => throw new Misfit(s"${other.sql} is no plain data")
      }

  private def isTuple(struct: StructType): Boolean =
    struct.fieldNames.zipWithIndex.forall { case (name, i) => name == s"_${i + 1}" }

  /** Plain data as a row's field of this type has it. */
  def fromPlain(value: Any, dataType: DataType): Any = (value, dataType) match {
    case (null, _) => null
    case (boolean: Boolean, BooleanType) => boolean
    case (int: BigInteger, ByteType) => exact(int, dataType)(_.byteValueExact)
    case (int: BigInteger, ShortType) => exact(int, dataType)(_.shortValueExact)
    case (int: BigInteger, IntegerType) => exact(int, dataType)(_.intValueExact)
    case (int: BigInteger, LongType) => exact(int, dataType)(_.longValueExact)
    case (double: Double, DoubleType) => double
    case (double: Double, FloatType) if double.isNaN || double.toFloat.toDouble == double =>
      double.toFloat
    case (int: BigInteger, DoubleType) if int.bitLength <= 53 => int.doubleValue
    case (int: BigInteger, FloatType) if int.bitLength <= 24 => int.floatValue
    case (text: String, StringType) => UTF8String.fromString(text)
    case (bytes: Array[Byte], BinaryType) => bytes
    case (decimal: JBigDecimal, fixed: DecimalType) => decimalOf(decimal, fixed)
    case (int: BigInteger, fixed: DecimalType) => decimalOf(new JBigDecimal(int), fixed)
    case (date: LocalDate, DateType) => Math.toIntExact(date.toEpochDay)
    // Python's datetimes without a zone are in the zone of the machine.
    case (moment @ Moment(local, zone, _), TimestampType) =>
      val offset = offsetOf(moment, zone.getOrElse(ZoneId.systemDefault))
      DateTimeUtils.instantToMicros(local.toInstant(offset))
    case (Moment(local, None, _), TimestampNTZType) =>
      DateTimeUtils.localDateTimeToMicros(local)
    case (time: LocalTime, _: TimeType) => time.toNanoOfDay
    case (duration: Duration, _: DayTimeIntervalType) =>
      Math.addExact(Math.multiplyExact(duration.getSeconds, 1000000L), duration.getNano / 1000L)
    case (Items(values, _), ArrayType(element, _)) =>
      new GenericArrayData(values.map(fromPlain(_, element)).toArray)
    case (Pairs(entries), MapType(key, of, _)) =>
      val builder = new ArrayBasedMapBuilder(key, of)
      entries.foreach { case (k, v) => builder.put(fromPlain(k, key), fromPlain(v, of)) }
      builder.build()
    case (Items(values, _), struct: StructType) if values.size == struct.length =>
      InternalRow.fromSeq(values.zip(struct).map { case (v, f) => fromPlain(v, f.dataType) })
    case (Named(names, values), struct: StructType) => byName(names.zip(values).toMap, struct)
    case (Pairs(entries), struct: StructType) if entries.forall(_._1.isInstanceOf[String]) =>
      byName(entries.map { case (k, v) => k.asInstanceOf[String] -> v }.toMap, struct)
    case _ => throw new Misfit(s"${describe(value)} is no ${dataType.sql}")
  }

  /** As in Python, also for times that clocks skip. */
  private def offsetOf(moment: Moment, zone: ZoneId): ZoneOffset =
    Option(zone.getRules.getTransition(moment.local)) match {
      case Some(change) if moment.isSecond => change.getOffsetAfter
      case Some(change) => change.getOffsetBefore
      case None => zone.getRules.getOffset(moment.local)
    }

  private def byName(values: Map[String, Any], struct: StructType): InternalRow = {
    val unknown = values.keySet -- struct.fieldNames
    if (unknown.nonEmpty)
      throw new Misfit(s"${struct.sql} has no field '${unknown.toSeq.sorted.head}'")
    InternalRow.fromSeq(struct.map(f => values.get(f.name).map(fromPlain(_, f.dataType)).orNull))
  }

  private def exact[T](int: BigInteger, to: DataType)(convert: BigInteger => T): T =
    try convert(int)
    catch { case _: ArithmeticException => throw new Misfit(s"${describe(int)} is no ${to.sql}") }

  private def decimalOf(value: JBigDecimal, to: DecimalType): Decimal = {
    // Looked at first: a short text can be a number of a billion digits.
    val whole = value.precision.toLong - value.scale
    val fits = value.signum == 0 || whole <= to.precision - to.scale
    def misfit = new Misfit(s"${describe(value)} is no ${to.sql}")
    if (!fits || value.scale > MostScale) throw misfit
    try Decimal(value.setScale(to.scale), to.precision, to.scale)
    catch { case _: ArithmeticException => throw misfit }
  }

  private val MostScale = 1000

  /** In UTC. Throws if Python's datetime has no such year. */
  private def dateTime(micros: Long): LocalDateTime = {
    val time = LocalDateTime.ofEpochSecond(
      Math.floorDiv(micros, 1000000L),
      Math.floorMod(micros, 1000000L).toInt * 1000,
      ZoneOffset.UTC
    )
    if (time.getYear < 1 || time.getYear > 9999)
      throw new Misfit(s"$time is of no year from 1 to 9999, the years that Python has")
    time
  }

  private def micros(interval: Long): Duration =
    Duration.ofSeconds(Math.floorDiv(interval, 1000000L), Math.floorMod(interval, 1000000L) * 1000)

  private def describe(value: Any): String = {
    val what = value match {
      case _: Boolean => "the bool"
      // Writing it in digits takes time quadratic in their number.
      case int: BigInteger if int.bitLength > 256 => return s"an int of ${int.bitLength} bits"
      case _: BigInteger => "the int"
      case _: Double => "the float"
      case _: String => "the string"
      case _: Array[Byte] => return "a bytes object"
      case _: JBigDecimal => "the Decimal"
      case _: Items => return "a list or tuple"
      case _: Pairs => return "a dict"
      case _: Named => return "a Row"
      case other => s"the ${other.getClass.getSimpleName}"
    }
    val text = value.toString
    s"$what ${if (text.length > 60) text.take(60) + "..." else text}"
  }
}
