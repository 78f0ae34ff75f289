package org.apache.spark.sql.keystate.jvm

import scala.collection.mutable.ArrayBuffer

import keystate.backend.{Change, EntryIterator, StateEntries}

/** The entries' values before their changes, in the order of the changes. */
private[jvm] final class Changes {
  private val before = ArrayBuffer.empty[Change]

  private[jvm] def clear(): Unit = before.clear()
  private[jvm] def +=(was: Change): Unit = before += was
  private[jvm] def ++=(later: Changes): Unit = before ++= later.before
  private[jvm] def lastFirst: Iterator[Change] = before.reverseIterator
}

/** Entries whose changes can be undone. It notes each entry's value before a change. */
private[jvm] final class UndoableEntries(entries: StateEntries) extends StateEntries {

  /** Takes the notes; null while there are to be none. */
  var changes: Changes = _

  /** Restores the entries to their values before these changes. */
  def undo(changes: Changes): Unit = {
    changes.lastFirst.foreach { was =>
      if (was.value == null) entries.remove(was.family, was.group, was.key)
      else entries.put(was.family, was.group, was.key, was.value)
    }
    changes.clear()
  }

  private def note(family: Int, group: Int, key: Array[Byte]): Unit =
    if (changes != null) changes += Change(family, group, key, entries.get(family, group, key))

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

  override def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    entries.scan(family, group, start, end)

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = entries.scanReverse(family, group, start, end)
}
