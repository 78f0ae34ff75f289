package org.apache.spark.sql.keystate.expression

import keystate.backend.{Entry, EntryIterator, GroupedKey}
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The entries of a state, which counts those that are put and removed. */
private[expression] class CountedEntries(entries: FamilyEntries) {
  var updated = 0L
  var removed = 0L

  def get(group: Int, entry: Array[Byte]): Array[Byte] = entries.get(group, entry)

  def put(group: Int, entry: Array[Byte], value: Array[Byte]): Unit = {
    entries.put(group, entry, value)
    updated += 1
  }

  def remove(group: Int, entry: Array[Byte]): Unit = {
    entries.remove(group, entry)
    removed += 1
  }

  /** Works with the entries of a key of a map, from one of them on. */
  protected def scanning[T](group: Int, from: Array[Byte])(work: Iterator[Entry] => T): T =
    closing(entries.scan(group, from, null))(work)

  /** The first entry of a key of a map from one on. Null if there is none. */
  protected def firstFrom(group: Int, from: Array[Byte]): Entry = scanning(group, from)(first)

  /** The last entry of a key of a map before one. Null if there is none. */
  protected def lastBefore(group: Int, key: Array[Byte], entry: Array[Byte]): Entry =
    closing(entries.scanReverse(group, GroupedKey.prefix(key), entry))(first)

  private def first(found: Iterator[Entry]): Entry = if (found.hasNext) found.next() else null

  private def closing[T](found: EntryIterator)(work: Iterator[Entry] => T): T =
    try work(found)
    finally found.close()
}
