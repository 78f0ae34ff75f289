package org.apache.spark.sql.keystate.expression

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{LongType, StructType}

import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The entries of a sorted map whose keys are numbers and whose values are rows, for one key at a
  * time. What is put is written once the key is done with: what comes and goes meanwhile is not.
  */
private[expression] final class NumberedRows(entries: FamilyEntries, of: StructType) {
  private val timed = new TimedEntries(entries, LongType, numbered = false)
  private val encode = UnsafeProjection.create(of)
  private val put = mutable.LongMap.empty[UnsafeRow]
  private var key: KeyAtHand = _
  private var next = 0L

  def updated: Long = timed.updated
  def removed: Long = timed.removed

  /** Begins with a key, of which there are no entries from a number on. */
  def begin(key: KeyAtHand, next: Long): Unit = {
    this.key = key
    this.next = next
    put.clear()
  }

  def get(number: Long): UnsafeRow =
    put.getOrElse(number, row(timed.get(key.group, timed.entry(key.bytes, number))))

  def put(number: Long, row: InternalRow): Unit = put.update(number, encode(row).copy())

  def remove(number: Long): Unit = {
    put -= number
    if (number < next) timed.remove(key.group, timed.entry(key.bytes, number))
  }

  /** The numbers and rows, in order. */
  def all: Seq[(Long, UnsafeRow)] = {
    val stored =
      if (next == 0) Nil
      else
        timed.firsts(key.group, key.bytes)(_ => true).map { entry =>
          timed.time(entry.key) -> row(entry.value)
        }
    if (put.isEmpty) stored
    else (stored.filterNot(each => put.contains(each._1)) ++ put).sortBy(_._1)
  }

  /** Writes what was put. */
  def write(): Unit = {
    put.foreachEntry { (number, row) =>
      timed.put(key.group, timed.entry(key.bytes, number), StateRows.encode(row))
    }
    put.clear()
  }

  private def row(value: Array[Byte]): UnsafeRow =
    if (value == null) null
    else {
      val row = new UnsafeRow(of.size)
      StateRows.point(row, value)
      row
    }
}

/** A key whose rows are matched. */
private[expression] final case class KeyAtHand(group: Int, bytes: Array[Byte])

/** What is counted of a key; see [[PatternMatch.CountersType]].
  *
  * @param isStored
  *   whether there is an entry for them
  */
private[expression] final class Counters(values: Array[Long], val isStored: Boolean) {
  var rows: Long = values(0)
  var matches: Long = values(1)
  var found: Long = values(2)
  var taken: Long = values(3)
  var kept: Long = values(4)
  var needed: Long = values(5)
  var position: Long = values(6)
  var matchedTo: Long = values(7)
  var next: Long = values(8)

  private def now = Array(rows, matches, found, taken, kept, needed, position, matchedTo, next)

  private[expression] def changed: Option[Array[Long]] =
    Some(now).filterNot(_.sameElements(values))
}

/** Reads and writes the counters of keys. */
private[expression] final class StoredCounters(entries: FamilyEntries) {
  private val counted = new CountedEntries(entries)
  private val width = PatternMatch.CountersType.size
  private val encode = UnsafeProjection.create(PatternMatch.CountersType)
  private val row = new UnsafeRow(width)

  def updated: Long = counted.updated

  def read(key: KeyAtHand): Counters = {
    val stored = counted.get(key.group, key.bytes)
    if (stored == null) new Counters(Array(0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, -1L), isStored = false)
    else {
      StateRows.point(row, stored)
      new Counters(Array.tabulate(width)(row.getLong), isStored = true)
    }
  }

  /** Begins to count anew when rows come again: nothing is left of a key. */
  def remove(key: KeyAtHand, counters: Counters): Unit =
    if (counters.isStored) counted.remove(key.group, key.bytes)

  def removed: Long = counted.removed

  def write(key: KeyAtHand, counters: Counters): Unit = counters.changed.foreach { values =>
    val row = new GenericInternalRow(values.map(value => value: Any))
    counted.put(key.group, key.bytes, StateRows.encode(encode(row)))
  }
}

/** The rows that partial matches have taken, each with the entry of the one before it, so that a
  * match that grows rewrites nothing. An entry goes when no partial match leads to it any more: a
  * key's entries are looked through once they are twice as many as were needed last.
  */
private[expression] final class TakenRows(links: NumberedRows, val rows: NumberedRows) {
  import TakenRows._

  private val fields = new GenericInternalRow(PatternMatch.TakenType.size)

  /** Adds an entry for a row, whose number this is. Returns the entry's. */
  def add(counters: Counters, before: Long, letter: Int, number: Long): Long = {
    fields.update(0, before)
    fields.update(1, letter)
    fields.update(2, number)
    links.put(counters.taken, fields)
    counters.taken += 1
    counters.kept += 1
    counters.taken - 1
  }

  /** The letters and the numbers of the rows that lead to an entry. */
  def of(last: Long): List[(Int, Long)] = {
    var found = List.empty[(Int, Long)]
    var at = last
    while (at >= 0) {
      val link = links.get(at)
      found = (link.getInt(1), link.getLong(2)) :: found
      at = link.getLong(0)
    }
    found
  }

  /** Removes entries to which none of these leads. Returns the rows that are needed; None if it did
    * not look.
    */
  def sweep(counters: Counters, ends: Iterable[Long]): Option[collection.Set[Long]] =
    Option.when(
      counters.kept > 0 && (ends.forall(_ < 0) || counters.kept > 2 * counters.needed + Few)
    ) {
      val stored = links.all.toMap
      val needed = mutable.HashSet.empty[Long]
      val neededRows = mutable.HashSet.empty[Long]
      ends.foreach { end =>
        var at = end
        while (at >= 0 && needed.add(at)) {
          neededRows += stored(at).getLong(2)
          at = stored(at).getLong(0)
        }
      }
      stored.keysIterator.filterNot(needed).foreach(links.remove)
      counters.kept = needed.size.toLong
      counters.needed = needed.size.toLong
      neededRows
    }
}

private object TakenRows {

  /** So many entries are not looked through. */
  private final val Few = 32L
}
