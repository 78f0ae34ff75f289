package keystate.backend.heap

import keystate.backend.{ChangeSink, EntryIterator, StateFamily}

/** The entries of one family: a table for each key group, made with its first entry. */
private[heap] final class FamilyTable(val family: StateFamily, maxParallelism: Int) {
  private val groups =
    new Array[KeyGroupTable](maxParallelism + 1) // the last is the operator group

  def count: Long = tables.map(_.size.toLong).sum
  def count(group: Int): Long = if (groups(group) == null) 0 else groups(group).size.toLong
  def changeCount: Long = tables.map(_.changeCount.toLong).sum
  def bytes: Long = tables.map(_.bytes).sum

  def get(group: Int, key: Array[Byte]): Array[Byte] = {
    val table = groups(group)
    if (table == null) null else table.get(key)
  }

  def put(group: Int, key: Array[Byte], value: Array[Byte]): Unit = madeTable(group).put(key, value)

  def remove(group: Int, key: Array[Byte]): Unit =
    if (groups(group) != null) groups(group).remove(key)

  def scan(
      group: Int,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): EntryIterator = {
    val table = groups(group)
    if (table == null) SortedEntriesIterator.empty else table.scan(start, end, reverse)
  }

  def writeChanges(sink: ChangeSink): Unit = groups.indices.foreach { group =>
    val table = groups(group)
    if (table != null && table.changeCount > 0) table.writeChanges(family.id, group, sink)
  }

  def changesCommitted(): Unit = tables.foreach(_.changesCommitted())

  def rollback(): Unit = tables.foreach(_.rollback())

  private def tables: Iterator[KeyGroupTable] = groups.iterator.filter(_ != null)

  /** The group's table, which is made if there is none.
    *
    * @param expected
    *   for how many entries of a family and group to make room
    */
  def madeTable(
      group: Int,
      expected: (Int, Int) => Long = FamilyTable.NoneExpected
  ): KeyGroupTable = {
    if (groups(group) == null)
      groups(group) = KeyGroupTable(family.layout, expected(family.id, group))
    groups(group)
  }
}

private object FamilyTable {
  private val NoneExpected: (Int, Int) => Long = (_, _) => 0
}
