package org.apache.spark.sql.keystate.size

import java.nio.ByteBuffer
import java.util.{Arrays, Locale}

import scala.collection.mutable

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, UnsafeRow}
import org.apache.spark.sql.types.{StringType, StructType}

import keystate.backend.{Change, Expiry, GroupedKey, Layout, StateFamily, StateValue}
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.spec.SystemColumnFamilies
import org.apache.spark.sql.keystate.store.KeystateCodec

/** Statistics of a state's entries, or of some of them: how large values are, which keys have the
  * most, when timers are due, how old entries are. Entries come ordered by group and key.
  *
  * @param keySchema
  *   None if the key columns are not known; then keys are shown in hexadecimal
  * @param watermark
  *   after the last micro-batch, in ms since the epoch: the clock of event-time timers
  * @param batchTime
  *   the time of the last micro-batch, likewise: the clock of processing-time timers
  * @param untouched
  *   receives all keys
  */
private[keystate] final class StateSample(
    family: StateFamily,
    keySchema: Option[StructType],
    watermark: Long,
    batchTime: Long,
    untouched: Option[UntouchedKeys] = None
) {
  import StateSample._

  private val kind = family.properties.getOrElse("kind", "")
  private val isTimers = SystemColumnFamilies.isTimers(family)
  private val isList = kind == "list"
  private val hasKeyRows = KeystateCodec.owns(family)
  private val timeToLive = Expiry.inProperties(family.properties)

  private var entries, bytes = 0L
  private val sizes = new Array[Long](SizeClasses)
  private val due = new Array[Long](Waits.length + 1)
  private val ages = new Array[Long](AgeClasses + 1)
  private var withoutAge = 0L

  private var key: Array[Byte] = _
  private var ofKey = Large(null, 0, 0)
  private val largest = mutable.PriorityQueue.empty[Large](Ordering.by(one => -one.bytes))
  private val element = new UnsafeRow(1)
  private var lastTime = 0L // in the timestamps of the key's entries

  def size: Long = entries

  def add(change: Change): Unit = {
    entries += 1
    val length = change.key.length + change.value.length
    bytes += length
    sizes(sizeClass(change.value.length)) += 1
    if (isTimers) addTimer(change.key)
    else {
      addToKey(change, length)
      timeToLive.foreach { case (millis, now) => addAge(change.value, millis, now) }
    }
  }

  private def addTimer(entry: Array[Byte]): Unit = {
    val buffer = ByteBuffer.wrap(entry)
    val now = if (buffer.get() == 0) watermark else batchTime
    val wait = (buffer.getLong() ^ Long.MinValue) - now
    due(Waits.indexWhere(wait <= _) match {
      case -1 => Waits.length
      case i => i
    }) += 1
  }

  private def addAge(value: Array[Byte], millis: Long, now: Long): Unit = {
    val timestamp = StateValue.timestamp(value)
    if (timestamp == StateValue.NoTimestamp) withoutAge += 1
    else {
      lastTime = Math.max(lastTime, timestamp)
      val share = (now - timestamp).toDouble / millis
      ages(if (share >= 1) AgeClasses else Math.max(0, (share * AgeClasses).toInt)) += 1
    }
  }

  private def addToKey(change: Change, length: Int): Unit = {
    val (start, until) = keyIn(family, change.key)
    val isSame = key != null && Arrays.equals(key, 0, key.length, change.key, start, until)
    if (!isSame) {
      endKey()
      key = Arrays.copyOfRange(change.key, start, until)
      ofKey = Large(key, 0, 0)
    }
    ofKey = ofKey.copy(bytes = ofKey.bytes + length, elements = ofKey.elements + elements(change))
  }

  /** The number of elements of a list, or entries of a map, in a stored entry. */
  private def elements(change: Change): Long =
    if (!isList) 1
    else {
      StateRows.point(element, change.value)
      element.getArray(0).numElements().toLong
    }

  private def endKey(): Unit = if (key != null) {
    if (largest.size < Kept) largest += ofKey
    else if (ofKey.bytes > largest.head.bytes) {
      largest.dequeue()
      largest += ofKey
    }
    untouched.foreach(_.see(key, ofKey.bytes, lastTime))
    key = null
    lastTime = 0
  }

  /** The keys with most bytes, the largest first. */
  def largestKeys: Seq[LargeKey] = {
    endKey()
    largest.toSeq.sortBy(-_.bytes).map(of => LargeKey(keyText(of.key), of.bytes, of.elements))
  }

  def toJson(total: Long): JValue =
    JObject(
      "entries" -> JInt(entries),
      "of" -> JInt(total),
      "bytes" -> JInt(bytes),
      "sizes" -> JArray(sizes.toList.zipWithIndex.collect {
        case (count, i) if count > 0 =>
          JArray(List(JInt(if (i == 0) 0 else 1L << (i - 1)), JInt(count)))
      }),
      "largest" -> JArray(largestKeys.toList.map(describe)),
      "due" -> (if (isTimers) counts(due) else JNull),
      "ttl" -> timeToLive.fold[JValue](JNull) { case (millis, now) =>
        JObject(
          "millis" -> JInt(millis),
          "clock" -> JInt(now),
          "ages" -> counts(ages),
          "without" -> JInt(withoutAge)
        )
      },
      "untouched" -> untouched.fold[JValue](JNull)(describe)
    )

  private def describe(untouched: UntouchedKeys): JValue = {
    endKey()
    JObject(
      "keys" -> JInt(untouched.count),
      "first" -> JArray(untouched.first.toList.map { of =>
        JObject(
          "key" -> JString(keyText(of.key)),
          "bytes" -> JInt(of.bytes),
          "time" -> (if (of.time == 0) JNull else JInt(of.time))
        )
      })
    )
  }

  private def counts(numbers: Array[Long]) = JArray(numbers.toList.map(JInt(_)))

  private def describe(large: LargeKey): JValue = JObject(
    "key" -> JString(large.key),
    "bytes" -> JInt(large.bytes),
    "elements" -> JInt(large.elements)
  )

  private def keyText(key: Array[Byte]): String = {
    val text = keySchema.filter(_ => hasKeyRows).fold(hexadecimal(key)) { schema =>
      val row = new UnsafeRow(schema.length)
      row.pointTo(key, key.length)
      val columns = schema.zipWithIndex.map { case (column, i) =>
        val value = BoundReference(i, column.dataType, nullable = true)
        String.valueOf(Cast(value, StringType, Some("UTC")).eval(row))
      }
      if (columns.size == 1) columns.head else columns.mkString("(", ", ", ")")
    }
    if (text.length <= KeyText) text else s"${text.take(KeyText)}..."
  }

  private def hexadecimal(bytes: Array[Byte]): String =
    bytes.take(KeyText).map(byte => String.format(Locale.ROOT, "%02x", byte & 0xff)).mkString
}

private[keystate] object StateSample {

  /** A key as text, how many bytes all of its entries have, and how many elements they are. */
  final case class LargeKey(key: String, bytes: Long, elements: Long)

  /** A key, how many bytes all of its entries have, and how many elements they are. */
  private final case class Large(key: Array[Byte], bytes: Long, elements: Long)

  /** The bounds of a key within an entry key. */
  private def keyIn(family: StateFamily, entry: Array[Byte]): (Int, Int) = {
    val end = if (family.layout == Layout.Grouped) GroupedKey.userKeyOffset(entry) else -1
    if (end < 0) (0, entry.length) else (4, end)
  }

  /** The key that an entry of a state belongs to. */
  def keyOf(family: StateFamily, entry: Array[Byte]): Array[Byte] = {
    val (start, until) = keyIn(family, entry)
    Arrays.copyOfRange(entry, start, until)
  }

  private val Kept = 20
  private val KeyText = 80
  private val AgeClasses = 10

  /** Class 0 has the empty values, class i those of 2^(i - 1) to 2^i - 1 bytes. */
  private val SizeClasses = 33

  private def sizeClass(length: Int): Int = 32 - Integer.numberOfLeadingZeros(length)

  private val Minute = 60000L

  /** Timers are counted by how long they wait, in ms: until each of these, and longer. */
  private val Waits: Seq[Long] =
    Seq(
      0,
      Minute,
      10 * Minute,
      60 * Minute,
      6 * 60 * Minute,
      24 * 60 * Minute,
      7 * 24 * 60 * Minute
    )
}
