package keystate.backend.heap

import java.util.Arrays

import keystate.backend.{Change, EntryIterator, KeyOrder, StateFamily}
import keystate.backend.heap.FamilyTable.Absent

/** The entries of one family, a table per key group, with an undo log of the open transaction: the
  * first change of an entry notes the value it had before.
  */
private[heap] final class FamilyTable(val family: StateFamily, maxParallelism: Int) {
  private val groups = new Array[GroupTable](maxParallelism + 1) // the last is the operator group
  private val undo = new Array[BytesMap[Array[Byte]]](maxParallelism + 1)
  private var entries = 0L
  private var changed = 0L
  private var entryBytes = 0L

  def count: Long = entries
  def count(group: Int): Long = if (groups(group) == null) 0 else groups(group).size.toLong
  def changeCount: Long = changed
  def bytes: Long = entryBytes

  def get(group: Int, key: Array[Byte]): Array[Byte] = {
    val table = groups(group)
    if (table == null) null else table.get(key, BytesMap.hash(key, key.length))
  }

  def put(group: Int, key: Array[Byte], value: Array[Byte]): Unit = {
    val hash = BytesMap.hash(key, key.length)
    val old = set(group, key, hash, value)
    if (undoOf(group).putIfAbsent(key, hash, if (old == null) Absent else old)) changed += 1
  }

  def remove(group: Int, key: Array[Byte]): Unit = {
    val hash = BytesMap.hash(key, key.length)
    val old = unset(group, key, hash)
    if (old != null) {
      val log = undoOf(group)
      if (log.putIfAbsent(key, hash, old)) changed += 1
      else if (log.get(key, key.length, hash) eq Absent) {
        // Made and removed in the same transaction: no change.
        log.remove(key, key.length, hash)
        changed -= 1
      }
    }
  }

  /** Like put and remove, but the undo log does not hear of it. */
  def load(group: Int, key: Array[Byte], value: Array[Byte]): Unit = {
    val hash = BytesMap.hash(key, key.length)
    if (value == null) unset(group, key, hash) else set(group, key, hash, value)
    ()
  }

  def scan(
      group: Int,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): EntryIterator = {
    val table = groups(group)
    if (table == null) SortedEntriesIterator.empty else table.scan(start, end, reverse)
  }

  def changes(): Iterator[Change] =
    undo.indices.iterator.filter(undo(_) != null).flatMap { group =>
      val keys = undo(group).copyKeys()
      KeyOrder.sort(keys, keys.length)
      keys.iterator.map(key => Change(family.id, group, key, get(group, key)))
    }

  def changesCommitted(): Unit = if (changed > 0) {
    Arrays.fill(undo.asInstanceOf[Array[AnyRef]], null)
    changed = 0
  }

  def rollback(): Unit = if (changed > 0) {
    undo.indices.foreach { group =>
      if (undo(group) != null)
        undo(group).foreach((key, old) => load(group, key, if (old eq Absent) null else old))
    }
    changesCommitted()
  }

  private def undoOf(group: Int): BytesMap[Array[Byte]] = {
    if (undo(group) == null) undo(group) = new BytesMap[Array[Byte]]
    undo(group)
  }

  private def set(group: Int, key: Array[Byte], hash: Int, value: Array[Byte]): Array[Byte] = {
    if (groups(group) == null) groups(group) = GroupTable(family.layout)
    val old = groups(group).put(key, hash, value)
    if (old == null) {
      entries += 1
      entryBytes += key.length + value.length + groups(group).entryOverhead
    } else entryBytes += value.length - old.length
    old
  }

  private def unset(group: Int, key: Array[Byte], hash: Int): Array[Byte] = {
    val table = groups(group)
    val old = if (table == null) null else table.remove(key, hash)
    if (old != null) {
      entries -= 1
      entryBytes -= key.length + old.length + table.entryOverhead
    }
    old
  }
}

private[heap] object FamilyTable {

  /** Stands in the undo log for "there was no entry"; compared by reference. */
  private val Absent = new Array[Byte](0)
}
