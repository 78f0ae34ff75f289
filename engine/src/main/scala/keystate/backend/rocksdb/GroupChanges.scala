package keystate.backend.rocksdb

import java.util.{NavigableMap, TreeMap}

import keystate.backend.{BytesMap, BytewiseOrder, HeapBudget, KeySort, Layout}

/** What the open transaction did to an entry: `value` is the new value, or null if it was removed.
  * `existed` says whether the database has the entry.
  */
private[rocksdb] final class PendingChange(var value: Array[Byte], val existed: Boolean)

private[rocksdb] object PendingChange {

  /** These stand in place of a change for an entry that was looked up and not changed. */
  val Present = new PendingChange(null, true)
  val Absent = new PendingChange(null, false)

  def isChange(change: PendingChange): Boolean =
    change != null && (change ne Present) && (change ne Absent)

  /** Whether it makes an entry that the database does not have. */
  def isNew(change: PendingChange): Boolean = change.value != null && !change.existed
}

/** The open transaction's changes to one key group of one family. */
private[rocksdb] sealed abstract class GroupChanges {

  /** How many more entries the group has with these changes than without. */
  var added = 0L

  /** An entry's change. `Present` or `Absent` if only that is known. Null if nothing is known. */
  def get(key: Array[Byte]): PendingChange
  def put(key: Array[Byte], change: PendingChange): Unit

  /** Forgets a change, or what is known of the entry. */
  def remove(key: Array[Byte]): Unit

  /** Gives each key to `f` that the database does not have and will have. */
  def foreachNew(f: Array[Byte] => Unit): Unit

  /** The changes in a range, in the order in which they are read. Changes may be made meanwhile. */
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
    changes.get(key, key.length, BytesMap.hash(key, key.length))

  override def put(key: Array[Byte], change: PendingChange): Unit =
    changes.put(key, BytesMap.hash(key, key.length), change): Unit

  override def remove(key: Array[Byte]): Unit =
    changes.remove(key, key.length, BytesMap.hash(key, key.length)): Unit

  override def foreachNew(f: Array[Byte] => Unit): Unit =
    changes.foreach((key, change) => if (PendingChange.isNew(change)) f(key))

  /** Those that there are now. Takes no bounds. */
  override def range(start: Array[Byte], end: Array[Byte], reverse: Boolean): ChangesCursor = {
    require(start == null && end == null && !reverse, "a point state has no order to scan in")
    all
  }

  override def all: ChangesCursor = {
    val keys = new Array[Array[Byte]](changes.size)
    var count = 0
    changes.foreach { (key, change) =>
      if (PendingChange.isChange(change)) {
        keys(count) = key
        count += 1
      }
    }
    KeySort.sort(keys, count)
    new ChangesCursor {
      private var i = 0
      override def key: Array[Byte] = if (i < count) keys(i) else null
      override def change: PendingChange = {
        val change = get(keys(i))
        // It was made in this transaction, and has been removed since.
        if (change == null) PendingChange.Absent else change
      }
      override def advance(): Unit = i += 1
    }
  }
}

private[rocksdb] final class SortedChanges extends GroupChanges {
  private val changes = new TreeMap[Array[Byte], PendingChange](BytewiseOrder.comparator)

  override def get(key: Array[Byte]): PendingChange = changes.get(key)
  override def put(key: Array[Byte], change: PendingChange): Unit =
    changes.put(key, change): Unit
  override def remove(key: Array[Byte]): Unit =
    changes.remove(key): Unit

  override def foreachNew(f: Array[Byte] => Unit): Unit =
    changes.forEach((key, change) => if (PendingChange.isNew(change)) f(key))

  override def range(start: Array[Byte], end: Array[Byte], reverse: Boolean): ChangesCursor =
    BytewiseOrder.range(changes, start, end, reverse) match {
      case null => GroupChanges.Empty
      case view => new NavigableCursor(view)
    }

  override def all: ChangesCursor = new ChangesCursor {
    private val entries = changes.entrySet.iterator
    private var entry = next()
    override def key: Array[Byte] = if (entry == null) null else entry.getKey
    override def change: PendingChange = entry.getValue
    override def advance(): Unit = entry = next()
    private def next() = if (entries.hasNext) entries.next() else null
  }

  /** Finds its place by its key each time, so that the map may change meanwhile. */
  private final class NavigableCursor(view: NavigableMap[Array[Byte], PendingChange])
      extends ChangesCursor {
    private var entry = view.firstEntry
    override def key: Array[Byte] = if (entry == null) null else entry.getKey
    override def change: PendingChange = entry.getValue
    override def advance(): Unit = entry = view.higherEntry(entry.getKey)
  }
}

/** What the last two transactions that changed a family wrote: on the heap, where a lookup takes a
  * tenth of what it takes in RocksDB. What is written is often read in the next micro-batch.
  *
  * The two are in the database too, so one of them can be dropped at any time: the older one when
  * there is a newer one or when memory is short. The newer one counts where both have an entry.
  *
  * @param memory
  *   what the store may take for it
  */
private[rocksdb] final class RecentEntries(memory: HeapBudget.Share) {
  import RecentEntries.Written

  private var newer = Written.Nothing
  private var older = Written.Nothing

  /** What was written to an entry. Null if that is not known any more. */
  def get(group: Int, key: Array[Byte]): PendingChange =
    if (newer.isEmpty) null
    else {
      val change = newer.get(group, key)
      if (change != null || older.isEmpty) change else older.get(group, key)
    }

  /** Takes over the changes of a transaction, by group, which take so many bytes. */
  def add(changes: Array[GroupChanges], bytes: Long): Unit = {
    drop(older)
    older = newer
    newer = Written.Nothing
    var fits = memory.take(bytes)
    if (!fits) {
      drop(older)
      older = Written.Nothing
      fits = memory.take(bytes)
    }
    // Without the newest, the older ones would tell what was true before: they are gone by now.
    if (fits) newer = new Written(changes, bytes)
  }

  def clear(): Unit = {
    drop(newer)
    drop(older)
    newer = Written.Nothing
    older = Written.Nothing
  }

  private def drop(written: Written): Unit = memory.giveBack(written.bytes)
}

private object RecentEntries {
  final class Written(changes: Array[GroupChanges], val bytes: Long) {
    def isEmpty: Boolean = changes.length == 0

    def get(group: Int, key: Array[Byte]): PendingChange =
      if (group >= changes.length || changes(group) == null) null
      else {
        val change = changes(group).get(key)
        if (PendingChange.isChange(change)) change else null
      }
  }

  object Written {
    val Nothing = new Written(Array.empty, 0)
  }
}
