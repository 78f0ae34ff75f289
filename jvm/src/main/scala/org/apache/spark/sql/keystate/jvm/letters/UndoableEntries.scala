package org.apache.spark.sql.keystate.jvm.letters

import scala.collection.mutable.ArrayBuffer

import keystate.backend.{Change, EntryIterator, StateEntries}

/** Entries of which the last changes can be undone, one after the other. For that it notes what each
  * entry was before it is changed.
  */
private[letters] final class UndoableEntries(entries: StateEntries) extends StateEntries {
  private val before = ArrayBuffer.empty[Change]

  /** Changes from now on can be undone; those until now can't. */
  def begin(): Unit = before.clear()

  /** Makes the entries what they were at `begin`. */
  def undo(): Unit = {
    before.reverseIterator.foreach { was =>
      if (was.value == null) entries.remove(was.family, was.group, was.key)
      else entries.put(was.family, was.group, was.key, was.value)
    }
    before.clear()
  }

  private def note(family: Int, group: Int, key: Array[Byte]): Unit =
    before += Change(family, group, key, entries.get(family, group, key))

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit = {
    note(family, group, key)
    entries.put(family, group, key, value)
  }

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit = {
    note(family, group, key)
    entries.remove(family, group, key)
  }

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    entries.get(family, group, key)

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = entries.multiGet(family, groups, keys, values, count)

  override def scan(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = entries.scan(family, group, start, end)

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = entries.scanReverse(family, group, start, end)
}
