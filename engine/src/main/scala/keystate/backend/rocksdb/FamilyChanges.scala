package keystate.backend.rocksdb

import java.util.Arrays

import keystate.backend.{Change, Layout, StateFamily}

/** The open transaction's changes in one family, on top of the database. */
private[rocksdb] final class FamilyChanges(val family: StateFamily, database: Database) {
  import FamilyChanges._

  private val notesLookups = family.layout == Layout.Point
  // In an ordered family entries are rather scanned, and come and go.
  private val isFiltered = family.layout != Layout.Ordered
  private val filter = database.newFilter(family.id)
  private val recent = database.newRecentEntries()
  private var groups = new Array[GroupChanges](0)
  private var changed = 0L
  private var removed = 0L
  private var noted = 0
  private var changedBytes = 0L
  private var notedBytes = 0L
  // The entry that a scan or lookup returned last, and whether the database has it.
  private var knownGroup = NoGroup
  private var knownKey: Array[Byte] = _
  private var knownExists = false
  private val scannedRanges = new ScannedRanges
  private val inOrder = new LookupsInOrder(from(_, _), () => database.writes)
  private val scansInOrder = new ScansInOrder(from(_, _), () => database.writes)
  // Numbers of entries: in the database by group, in the database in all, and in all with the
  // changes.
  private var stored = new Array[Long](0)
  private var committed = 0L
  private var entries = 0L

  def count: Long = entries
  def count(group: Int): Long =
    (if (group < stored.length) stored(group) else 0) +
      (if (group < groups.length && groups(group) != null) groups(group).added else 0)
  def changeCount: Long = changed
  def hasRemovals: Boolean = removed > 0

  /** The number of bytes that the changes take on the heap. */
  def bytes: Long = changedBytes

  /** Adds to the number of a group's entries in the database. */
  def restored(group: Int, count: Long): Unit = {
    filter.forget(group)
    recent.clear()
    know(NoGroup, null, exists = false)
    scannedRanges.clear()
    addStored(group, count)
    committed += count
    entries += count
  }

  def get(group: Int, key: Array[Byte]): Array[Byte] = {
    val change = changesOf(group).get(key)
    if (PendingChange.isChange(change)) change.value
    else if (change eq PendingChange.Absent) null
    else {
      val value = if (filter.excludes(group, key)) null else storedValue(group, key)
      if (value == null) missed(group)
      if (change == null) note(group, key, value != null)
      know(group, key, value != null)
      value
    }
  }

  /** [[keystate.backend.StateEntries.multiGet]] for this family. */
  def multiGet(
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = {
    // The indexes of the keys that have no change and may be stored.
    val asked = new Array[Int](count)
    var stored = 0
    var i = 0
    while (i < count) {
      val change = changesOf(groups(i)).get(keys(i))
      values(i) = null
      if (PendingChange.isChange(change)) values(i) = change.value
      else if (change ne PendingChange.Absent)
        if (filter.excludes(groups(i), keys(i))) note(groups(i), keys(i), present = false)
        else {
          val written = recent.get(groups(i), keys(i))
          if (written == null) {
            asked(stored) = i
            stored += 1
          } else {
            values(i) = written.value
            if (change == null) note(groups(i), keys(i), written.value != null)
          }
        }
      i += 1
    }
    database.multiGet(family.id, groups, keys, values, asked, stored)
    i = 0
    while (i < stored) {
      val index = asked(i)
      if (values(index) == null) missed(groups(index))
      if (changesOf(groups(index)).get(keys(index)) == null)
        note(groups(index), keys(index), values(index) != null)
      i += 1
    }
  }

  def put(group: Int, key: Array[Byte], value: Array[Byte]): Unit = {
    val changes = changesOf(group)
    val change = changes.get(key)
    if (PendingChange.isChange(change)) {
      if (change.value == null) {
        count(changes, 1)
        removed -= 1
      } else changedBytes -= change.value.length
      changedBytes += value.length
      change.value = value
    } else {
      val existed = exists(change, group, key)
      if (!existed) count(changes, 1)
      if (change != null) noted -= 1
      add(changes, key, new PendingChange(value, existed))
    }
  }

  def remove(group: Int, key: Array[Byte]): Unit = {
    val changes = changesOf(group)
    val change = changes.get(key)
    if (PendingChange.isChange(change)) {
      if (change.value != null) {
        count(changes, -1)
        changedBytes -= change.value.length
        if (change.existed) {
          change.value = null
          removed += 1
        } else {
          // Made and removed in the same transaction: no change is left.
          changes.remove(key)
          changed -= 1
          changedBytes -= key.length + Overhead
        }
      }
    } else if (exists(change, group, key)) {
      count(changes, -1)
      removed += 1
      if (change != null) noted -= 1
      add(changes, key, new PendingChange(null, existed = true))
    } else if (change == null) note(group, key, present = false)
  }

  /** Takes note that a scan has given an entry that the database has. It is often removed next, and
    * then need not be looked up.
    */
  def scanned(group: Int, key: Array[Byte]): Unit = know(group, key, exists = true)

  /** The entries of the database in a range, in their order. */
  def stored(group: Int, start: Array[Byte], end: Array[Byte]): StoredCursor = {
    val known = scannedRanges.cursor(group, start, end)
    if (known != null) known
    else
      scansInOrder.find(group, start, end) match {
        case null =>
          val entries = database.scan(family.id, group, start, end, false)
          scannedRanges.noting(entries, group, start, end)
        case range =>
          scannedRanges.note(range)
          range.cursor
      }
  }

  /** The changes in a range. A bound that is null is no bound. */
  def range(group: Int, start: Array[Byte], end: Array[Byte], reverse: Boolean): ChangesCursor =
    changesOf(group).range(start, end, reverse)

  /** The changes, ordered by group and key. */
  def changes(): Iterator[Change] =
    groups.indices.iterator.filter(groups(_) != null).flatMap { group =>
      val cursor = groups(group).all
      Iterator.continually(cursor).takeWhile(_.key != null).map { _ =>
        val change = Change(family.id, group, cursor.key, cursor.change.value)
        cursor.advance()
        change
      }
    }

  /** Must be called before the changes are stored. */
  def filterChanges(): Unit =
    groups.indices.foreach { group =>
      if (groups(group) != null && filter.knows(group)) {
        val live = count(group)
        groups(group).foreachNew(filter.add(group, _, live))
      }
    }

  def close(): Unit = {
    inOrder.clear()
    scansInOrder.clear()
    filter.close()
    recent.clear()
  }

  def changesCommitted(): Unit = {
    committed = entries
    groups.indices.foreach { group =>
      if (groups(group) != null) addStored(group, groups(group).added)
    }
    if (family.layout == Layout.Point && changed > 0)
      // Notes come with the changes. Where they are most of it, they are not worth their memory.
      if (notedBytes > changedBytes) recent.clear()
      else recent.add(groups, changedBytes + notedBytes)
    rollback()
  }

  def rollback(): Unit = {
    entries = committed
    changed = 0
    removed = 0
    noted = 0
    changedBytes = 0
    notedBytes = 0
    know(NoGroup, null, exists = false)
    scannedRanges.clear()
    inOrder.clear()
    scansInOrder.clear()
    groups = new Array[GroupChanges](0)
  }

  private def changesOf(group: Int): GroupChanges = {
    if (group >= groups.length) groups = groups.padTo(group + 1, null)
    if (groups(group) == null) groups(group) = GroupChanges(family.layout)
    groups(group)
  }

  private def know(group: Int, key: Array[Byte], exists: Boolean): Unit = {
    knownGroup = group
    knownKey = key
    knownExists = exists
  }

  private def count(changes: GroupChanges, added: Int): Unit = {
    entries += added
    changes.added += added
  }

  private def addStored(group: Int, count: Long): Unit = if (count != 0) {
    if (group >= stored.length) stored = Arrays.copyOf(stored, group + 1)
    stored(group) += count
  }

  private def exists(known: PendingChange, group: Int, key: Array[Byte]): Boolean =
    if (known != null) known.existed
    else if (group == knownGroup && Arrays.equals(key, knownKey)) knownExists
    else
      scannedRanges.has(group, key) match {
        case ScannedRanges.Unknown =>
          val found = !filter.excludes(group, key) && isStored(group, key)
          if (!found) missed(group)
          found
        case scanned => scanned == ScannedRanges.Present
      }

  private def from(group: Int, key: Array[Byte]): DatabaseCursor =
    database.scan(family.id, group, key, null, false)

  private def storedValue(group: Int, key: Array[Byte]): Array[Byte] = {
    val known = knownValue(group, key)
    if (known ne LookupsInOrder.LookItUp) known else database.get(family.id, group, key)
  }

  private def isStored(group: Int, key: Array[Byte]): Boolean = {
    val known = knownValue(group, key)
    if (known ne LookupsInOrder.LookItUp) known != null
    else database.contains(family.id, group, key)
  }

  /** The stored value, as far as no lookup is needed for it. */
  private def knownValue(group: Int, key: Array[Byte]): Array[Byte] = {
    val written = recent.get(group, key)
    if (written != null) written.value else inOrder.find(group, key)
  }

  private def missed(group: Int): Unit =
    if (isFiltered) filter.missed(group, if (group < stored.length) stored(group) else 0)

  private def add(changes: GroupChanges, key: Array[Byte], change: PendingChange): Unit = {
    changes.put(key, change)
    changed += 1
    changedBytes += key.length + (if (change.value == null) 0 else change.value.length) + Overhead
  }

  /** Notes whether a looked-up key exists. The key is often written next, and the write then needs
    * no lookup.
    */
  private def note(group: Int, key: Array[Byte], present: Boolean): Unit =
    if (notesLookups && noted < MaxNotes) {
      changesOf(group).put(key, if (present) PendingChange.Present else PendingChange.Absent)
      noted += 1
      notedBytes += key.length + Overhead
    }
}

private[rocksdb] object FamilyChanges {

  private final val NoGroup = -1

  /** The bytes that a change takes besides its key and value. */
  private final val Overhead = 90

  /** The most keys with notes: keys that were read and not written since. The number exceeds the
    * keys that a Python worker has before it returns their changes: the keys of the messages in
    * flight.
    */
  private final val MaxNotes = 500000
}
