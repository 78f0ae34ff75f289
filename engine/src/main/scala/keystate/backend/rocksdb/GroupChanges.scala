package keystate.backend.rocksdb

import keystate.backend.{BytesMap, KeySort, Layout}

/** The open transaction's change of an entry: `value` is the new value, or null if the entry was
  * removed. `existed` says whether the database has the entry.
  */
private[rocksdb] final class PendingChange(var value: Array[Byte], val existed: Boolean)

private[rocksdb] object PendingChange {

  /** These two mark an entry that was looked up and not changed. */
  val Present = new PendingChange(null, true)
  val Absent = new PendingChange(null, false)

  def isChange(change: PendingChange): Boolean =
    change != null && (change ne Present) && (change ne Absent)

  /** Whether the change adds an entry that the database does not have. */
  def isNew(change: PendingChange): Boolean = change.value != null && !change.existed
}

/** The open transaction's changes to one key group of one family. */
private[rocksdb] abstract class GroupChanges {

  /** The number of entries that these changes add to the group, less those that they remove. */
  var added = 0L

  /** An entry's change. `Present` or `Absent` if only that is known. Null if nothing is known. */
  def get(key: Array[Byte]): PendingChange
  def put(key: Array[Byte], change: PendingChange): Unit

  /** Drops a change or a note about an entry. */
  def remove(key: Array[Byte]): Unit

  /** Gives each key to `f` that the database does not have and will have. */
  def foreachNew(f: Array[Byte] => Unit): Unit

  /** The changes in a range, in reading order. Changes may be made meanwhile. */
  def range(start: Array[Byte], end: Array[Byte], reverse: Boolean): ChangesCursor

  /** All changes with their keys sorted. None may be made meanwhile. */
  def all: ChangesCursor
}

/** Goes through changes, one after the other. */
private[rocksdb] trait ChangesCursor {

  /** The current change's key. Null after the last change. */
  def key: Array[Byte]
  def change: PendingChange
  def advance(): Unit
}

private[rocksdb] object GroupChanges {
  def apply(layout: Layout): GroupChanges =
    if (layout == Layout.Point) new HashedChanges else new SortedChanges

  object Empty extends ChangesCursor {
    override def key: Array[Byte] = null
    override def change: PendingChange = null
    override def advance(): Unit = ()
  }
}

private[rocksdb] final class HashedChanges extends GroupChanges {
  private val changes = new BytesMap[PendingChange]

  override def get(key: Array[Byte]): PendingChange =
    changes.get(key)

  override def put(key: Array[Byte], change: PendingChange): Unit =
    changes.put(key, change): Unit

  override def remove(key: Array[Byte]): Unit =
    changes.remove(key): Unit

  override def foreachNew(f: Array[Byte] => Unit): Unit =
    changes.foreach((key, change) => if (PendingChange.isNew(change)) f(key))

  /** The changes at the time of the call. Takes no bounds. */
  override def range(start: Array[Byte], end: Array[Byte], reverse: Boolean): ChangesCursor = {
    require(start == null && end == null && !reverse, "a point state has no order to scan in")
    all
  }

  override def all: ChangesCursor = KeysCursor.ofChanges(changes, get(_))
}

/** Iterates the first `count` keys, which are sorted. Changes may be made meanwhile. */
private[rocksdb] final class KeysCursor(
    keys: Array[Array[Byte]],
    count: Int,
    get: Array[Byte] => PendingChange
) extends ChangesCursor {
  private var i = 0
  override def key: Array[Byte] = if (i < count) keys(i) else null
  override def change: PendingChange = {
    val change = get(keys(i))
    // The key was added in this transaction, and has been removed since.
    if (change == null) PendingChange.Absent else change
  }
  override def advance(): Unit = i += 1
}

private[rocksdb] object KeysCursor {

  /** A cursor over the changes at the time of the call.
    *
    * @param get
    *   finds the change at the time when the cursor reaches its key
    */
  def ofChanges(changes: BytesMap[PendingChange], get: Array[Byte] => PendingChange): KeysCursor = {
    val keys = new Array[Array[Byte]](changes.size)
    var count = 0
    changes.foreach { (key, change) =>
      if (PendingChange.isChange(change)) {
        keys(count) = key
        count += 1
      }
    }
    KeySort.sort(keys, count)
    new KeysCursor(keys, count, get)
  }
}
