package org.apache.spark.sql.keystate.expression

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{BooleanType, StructType, TimestampType}

import keystate.TimeDomain
import keystate.TimeDomain.{EVENT_TIME, PROCESSING_TIME}
import keystate.backend.{Entry, GroupedKey}
import org.apache.spark.sql.keystate.encoding.OrderedKeyCodec
import org.apache.spark.sql.keystate.state.{FamilyEntries, Timers}

/** The stored windows of a task's keys, and their timers.
  *
  * A window is an entry of its key's sorted map, under whether it is open, its end and its start. It
  * is open until it fires. With lateness it is kept after that, and a late row opens it again. A key
  * has one timer at most: at the earliest time at which one of its windows fires or goes.
  *
  * @param lateness
  *   how long a window is kept after its end, in ms
  */
private[expression] final class StoredWindows(
    entries: FamilyEntries,
    timers: Timers,
    byEventTime: Boolean,
    lateness: Long
) extends CountedEntries(entries) {
  import StoredWindows._

  private val codec = OrderedKeyCodec(KeyType)
  private val holder = new GenericInternalRow(1)
  private val fields = new GenericInternalRow(KeyType.length)
  holder.update(0, fields)
  private val decoded = new GenericInternalRow(1)
  private val domain: TimeDomain = if (byEventTime) EVENT_TIME else PROCESSING_TIME
  private val isOpenBytes = { set(isOpen = true, 0, 0); codec.encode(holder, 0).take(2) }

  /** The time at which a window goes. */
  def goes(last: Long): Long =
    if (last > Long.MaxValue - lateness) Long.MaxValue else last + lateness

  def keyOf(key: Array[Byte], isOpen: Boolean, end: Long, start: Long): Array[Byte] = {
    set(isOpen, end, start)
    GroupedKey.entry(key, codec.encode(holder, 0))
  }

  /** All windows of a key. */
  def all(group: Int, key: Array[Byte]): Seq[StoredWindow] =
    scanning(group, GroupedKey.prefix(key))(_.map(read).toVector)

  /** The earliest time at which a stored window of a key fires or goes, if there is one. */
  def earliest(group: Int, key: Array[Byte]): Long = {
    def first(from: Array[Byte]) = Option(firstFrom(group, from)).map(read)
    first(GroupedKey.prefix(key)) match {
      case None => Never
      case Some(window) if window.isOpen => window.last
      case Some(fired) =>
        val open = first(GroupedKey.entry(key, isOpenBytes))
        open.fold(goes(fired.last))(window => math.min(goes(fired.last), window.last))
    }
  }

  /** The windows of a key that fire or go by a time, and the earliest time of the others. */
  def over(group: Int, key: Array[Byte], until: Long): (Seq[StoredWindow], Long) = {
    val found = new mutable.ArrayBuffer[StoredWindow](Few)
    var next = Never

    /** Reads windows, sorted by their ends, up to the first that is neither. */
    def read(stored: Iterator[Entry]): Boolean = {
      var isOpen = false
      var more = true
      while (more && stored.hasNext) {
        val window = StoredWindows.this.read(stored.next())
        val time = if (window.isOpen) window.last else goes(window.last)
        if (time <= until) found += window
        else {
          next = math.min(next, time)
          more = false
        }
        isOpen = window.isOpen
      }
      isOpen || more
    }

    val isDone = scanning(group, GroupedKey.prefix(key))(read)
    if (!isDone) scanning(group, GroupedKey.entry(key, isOpenBytes))(read): Unit
    (found.toSeq, next)
  }

  /** Moves a key's timer. */
  def moveTimer(group: Int, key: Array[Byte], from: Long, to: Long): Unit = if (from != to) {
    if (from != Never) timers.set(domain, from, group, key, wanted = false)
    if (to != Never) timers.set(domain, to, group, key, wanted = true)
  }

  private def set(isOpen: Boolean, end: Long, start: Long): Unit = {
    fields.update(0, isOpen)
    fields.update(1, end * 1000)
    fields.update(2, start * 1000)
  }

  private def read(entry: Entry): StoredWindow = {
    codec.decode(entry.key, GroupedKey.userKeyOffset(entry.key), decoded, 0)
    val key = decoded.getStruct(0, KeyType.length)
    def millis(field: Int) = Math.floorDiv(key.getLong(field), 1000L)
    StoredWindow(entry.key, entry.value, key.getBoolean(0), millis(2), millis(1))
  }
}

/** A window as it is stored: its entry, and its bounds in ms. */
private[expression] final case class StoredWindow(
    key: Array[Byte],
    value: Array[Byte],
    isOpen: Boolean,
    start: Long,
    end: Long
) {
  def last: Long = end - 1
}

private[keystate] object StoredWindows {

  /** The type of the map's keys. Windows that have fired come first. */
  val KeyType: StructType = new StructType()
    .add("open", BooleanType)
    .add("window_end", TimestampType)
    .add("window_start", TimestampType)

  /** The time of a timer that there is not. */
  private[expression] final val Never = Long.MaxValue

  /** How many windows of a key end at a time, mostly. */
  private final val Few = 2
}
