package keystate.backend.rocksdb

import java.util.NoSuchElementException

import keystate.backend.{BytewiseOrder, Entry, EntryIterator}

/** The database's entries in a range, merged with the open transaction's changes. If both have a
  * key, the change counts.
  *
  * @param onGiven
  *   receives each entry of the database when the scan returns it
  */
private[rocksdb] final class MergedScan(
    stored: StoredCursor,
    changes: ChangesCursor,
    reverse: Boolean,
    checkOpen: () => Unit
)(onGiven: Array[Byte] => Unit)
    extends EntryIterator {
  private var upcoming: Entry = _
  private var isStored = false
  private var sought = false
  private var closed = false

  override def hasNext: Boolean = {
    if (!sought && !closed) {
      checkOpen()
      upcoming = find()
      sought = true
    }
    upcoming != null
  }

  override def next(): Entry = {
    if (!hasNext) throw new NoSuchElementException
    sought = false
    if (isStored) onGiven(upcoming.key)
    upcoming
  }

  override def close(): Unit = if (!closed) {
    closed = true
    upcoming = null
    stored.close()
  }

  private def find(): Entry = {
    var entry: Entry = null
    while (entry == null && (stored.key != null || changes.key != null)) {
      val order = compare()
      isStored = order < 0
      if (isStored) {
        entry = new Entry(stored.key, stored.value)
        stored.advance()
      } else {
        val value = changes.change.value
        if (value != null) entry = new Entry(changes.key, value)
        if (order == 0) stored.advance()
        changes.advance()
      }
    }
    entry
  }

  /** Negative if the stored entry comes first, positive if the change does, 0 if the keys are
    * equal.
    */
  private def compare(): Int =
    if (stored.key == null) 1
    else if (changes.key == null) -1
    else {
      val order = BytewiseOrder.comparator.compare(stored.key, changes.key)
      if (reverse) -order else order
    }
}
