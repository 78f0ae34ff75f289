package org.apache.spark.sql.keystate.encoding

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.math.{BigDecimal => JBigDecimal, BigInteger}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{BufferUnderflowException, ByteBuffer}
import java.time.temporal.ChronoUnit
import java.time.{Duration, LocalDate, LocalDateTime, LocalTime, ZoneId, ZoneOffset}

/** Plain data as bytes: the stored form of the elements of a `ListCheckpointed` function, in Python
  * and here. docs/file-format.md lists the tags. Values are null, Boolean, BigInteger, Double,
  * String, bytes, java.math.BigDecimal, LocalDate, LocalTime, Duration, and the classes below.
  *
  * Whoever can write into a checkpoint chooses these bytes. So they can become only these values,
  * and each length is compared with the remaining bytes.
  */
private[keystate] object PlainData {

  /** A list, a set, or a tuple.
    *
    * @param isTuple
    *   whether it is written as a tuple, or as a list
    */
  final case class Items(values: Seq[Any], isTuple: Boolean = false)

  /** Keys and their values. */
  final case class Pairs(entries: Seq[(Any, Any)])

  /** Values with names: Python's Row. */
  final case class Named(names: Seq[String], values: Seq[Any])

  /** A date with a time; None for the zone if Python has it without one.
    *
    * @param isSecond
    *   whether it is the second of two that look the same, as clocks are set back: Python's fold
    */
  final case class Moment(local: LocalDateTime, zone: Option[ZoneId], isSecond: Boolean = false)

  /** Bytes that are not plain data; the message says why. */
  final class Unreadable(message: String) extends Exception(message)

  /** The bytes are a pickle. */
  final class Pickled extends Exception

  private val Format: Byte = 1
  private val Pickle: Byte = 0x80.toByte
  private val Depth = 100
  private val MostDigits = 1000

  def encode(value: Any): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    bytes.write(Format.toInt)
    new Writer(new DataOutputStream(bytes)).write(value)
    bytes.toByteArray
  }

  /** Throws [[Pickled]] or [[Unreadable]] if the bytes are something else. */
  def decode(bytes: Array[Byte]): Any = {
    val in = ByteBuffer.wrap(bytes)
    try {
      in.get() match {
        case Format =>
        case Pickle => throw new Pickled
        case other => throw new Unreadable(s"it begins with the byte $other")
      }
      val value = new Reader(in).read(Depth)
      if (in.hasRemaining) throw new Unreadable("there is more than one value")
      value
    } catch {
      case _: BufferUnderflowException => throw new Unreadable("it ends too early")
      case e @ (_: ArithmeticException | _: java.time.DateTimeException | _: NumberFormatException |
          _: java.nio.charset.CharacterCodingException) =>
        throw new Unreadable(e.toString)
    }
  }

  private final class Writer(out: DataOutputStream) {
    def write(value: Any): Unit = value match {
      case null => out.write('N')
      case true => out.write('T')
      case false => out.write('F')
      case int: BigInteger => sized('i', int.toByteArray.reverse)
      case double: Double =>
        out.write('d')
        out.writeDouble(double)
      case string: String => text('s', string)
      case bytes: Array[Byte] => sized('b', bytes)
      case decimal: JBigDecimal => text('D', decimal)
      case date: LocalDate => text('1', date)
      case Moment(local, zone, isSecond) =>
        text('2', local)
        out.write(if (isSecond) 1 else 0)
        zone match {
          case Some(offset: ZoneOffset) =>
            all('5', Seq(Duration.ofSeconds(offset.getTotalSeconds.toLong)))
          case _ => write(null)
        }
      case time: LocalTime =>
        text('3', time.truncatedTo(ChronoUnit.MICROS))
        out.write(0)
        write(null)
      case duration: Duration =>
        out.write('4')
        val days = Math.floorDiv(duration.getSeconds, SecondsOfDay)
        out.writeInt(Math.toIntExact(days))
        out.writeInt(Math.floorMod(duration.getSeconds, SecondsOfDay).toInt)
        out.writeInt(duration.getNano / 1000)
      case Items(values, isTuple) => all(if (isTuple) 't' else 'l', values)
      case Pairs(entries) =>
        out.write('m')
        out.writeInt(entries.size)
        entries.foreach { case (key, of) =>
          write(key)
          write(of)
        }
      case Named(names, values) =>
        all('R', values)
        all(names)
      case other => throw new IllegalArgumentException(s"${other.getClass} is not plain data")
    }

    private def all(tag: Char, values: Seq[Any]): Unit = {
      out.write(tag.toInt)
      all(values)
    }

    private def all(values: Seq[Any]): Unit = {
      out.writeInt(values.size)
      values.foreach(write)
    }

    private def sized(tag: Char, bytes: Array[Byte]): Unit = {
      out.write(tag.toInt)
      var left = bytes.length
      while (left > 0x7f) {
        out.write(left & 0x7f | 0x80)
        left >>= 7
      }
      out.write(left)
      out.write(bytes)
    }

    private def text(tag: Char, value: Any): Unit = sized(tag, value.toString.getBytes(UTF_8))
  }

  private final val SecondsOfDay = 24 * 60 * 60L

  private final class Reader(in: ByteBuffer) {
    def read(depth: Int): Any = {
      if (depth == 0) throw new Unreadable(s"it is nested more than $Depth deep")
      val inner = depth - 1
      in.get().toChar match {
        case 'N' => null
        case 'T' => true
        case 'F' => false
        case 'i' => int()
        case 'd' => in.getDouble()
        case 's' => text()
        case 'b' => bytes()
        case 'l' | 'e' => Items(all(inner))
        case 't' => Items(all(inner), isTuple = true)
        case 'm' => Pairs(Vector.fill(count())((read(inner), read(inner))))
        case 'R' => named(inner)
        case 'D' =>
          val digits = text()
          // Java takes the square of their number.
          if (digits.length > MostDigits)
            throw new Unreadable("a Decimal is longer than any type's")
          new JBigDecimal(digits)
        case '1' => LocalDate.parse(text())
        case '2' =>
          val local = LocalDateTime.parse(text())
          val isSecond = fold()
          Moment(local, zone(inner), isSecond)
        case '3' =>
          val time = LocalTime.parse(text())
          fold(): Unit
          if (zone(inner).nonEmpty) throw new Unreadable("Scala has no type for a time with a zone")
          time
        case '4' => duration()
        case 'a' | 'g' => throw new Unreadable("Scala has no type for what NumPy has made")
        case other => throw new Unreadable(s"there is no type '$other'")
      }
    }

    private def size(): Int = {
      var n = 0L
      var shift = 0
      var byte = 0x80
      while (byte >= 0x80) {
        if (shift > 56) throw new Unreadable("it has a length without end")
        byte = in.get() & 0xff
        n |= (byte & 0x7fL) << shift
        shift += 7
      }
      if (n > in.remaining) throw new BufferUnderflowException
      n.toInt
    }

    private def bytes(): Array[Byte] = {
      val taken = new Array[Byte](size())
      in.get(taken)
      taken
    }

    private def text(): String =
      UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes())).toString

    private def int(): BigInteger = bytes() match {
      case Array() => BigInteger.ZERO
      case little => new BigInteger(little.reverse)
    }

    private def count(): Int = {
      val n = in.getInt()
      if (n < 0 || n > in.remaining) throw new Unreadable(s"it is too short for $n values")
      n
    }

    private def all(depth: Int): Seq[Any] = Vector.fill(count())(read(depth))

    private def named(depth: Int): Named = {
      val (values, names) = (all(depth), all(depth))
      if (names.size != values.size || !names.forall(_.isInstanceOf[String]))
        throw new Unreadable("a Row has other names than values")
      Named(names.map(_.toString), values)
    }

    /** Whether a time is the second of two equal clock times. */
    private def fold(): Boolean = in.get() match {
      case 0 => false
      case 1 => true
      case other => throw new Unreadable(s"a time has the fold $other")
    }

    private def duration(): Duration = {
      val (days, seconds, micros) = (in.getInt(), in.getInt(), in.getInt())
      Duration.ofDays(days.toLong).plusSeconds(seconds.toLong).plusNanos(micros * 1000L)
    }

    private def zone(depth: Int): Option[ZoneId] = in.get().toChar match {
      case 'N' => None
      case '5' =>
        all(depth) match { // with a name, or without
          case Seq(offset: Duration, _*) =>
            Some(ZoneOffset.ofTotalSeconds(Math.toIntExact(offset.getSeconds)))
          case _ => throw new Unreadable("a time zone has no offset")
        }
      case '6' => Some(ZoneId.of(text()))
      case other => throw new Unreadable(s"there is '$other', which does not belong there")
    }
  }
}
