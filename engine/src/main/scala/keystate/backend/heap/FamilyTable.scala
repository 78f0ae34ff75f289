package keystate.backend.heap

import keystate.backend.{ChangeSink, EntryIterator, GroupSource, StateFamily}

/** The entries of one family: a table for each key group. The table is made with the group's first
  * entry, or when an entry of a group that is not loaded yet is requested.
  */
private[heap] final class FamilyTable(val family: StateFamily, maxParallelism: Int) {
  private val groups =
    new Array[KeyGroupTable](maxParallelism + 1) // the last is the operator group
  // Groups that are not loaded yet, which have no table; null if there are none.
  private var awaited: AwaitedGroups = _

  def entriesHeld: Long = tables.map(_.size.toLong).sum
  def count: Long = entriesHeld + (if (awaited == null) 0 else awaited.count)
  def count(group: Int): Long =
    if (groups(group) != null) groups(group).size.toLong
    else if (awaited != null) awaited.count(group)
    else 0
  def changeCount: Long = tables.map(_.changeCount.toLong).sum
  def bytes: Long = tables.map(_.bytes).sum

  def get(group: Int, key: Array[Byte]): Array[Byte] = {
    val table = loadedTable(group)
    if (table == null) null else table.get(key)
  }

  def put(group: Int, key: Array[Byte], value: Array[Byte]): Unit = madeTable(group).put(key, value)

  /** Returns whether there was such an entry. */
  def remove(group: Int, key: Array[Byte]): Boolean = {
    val table = loadedTable(group)
    table != null && table.remove(key)
  }

  def scan(group: Int, start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator = {
    val table = loadedTable(group)
    if (table == null) SortedEntriesIterator.empty else table.scan(start, end, reverse)
  }

  def writeChanges(sink: ChangeSink): Unit = groups.indices.foreach { group =>
    val table = groups(group)
    if (table != null && table.changeCount > 0) table.writeChanges(family.id, group, sink)
  }

  def changesCommitted(): Unit = tables.foreach(_.changesCommitted())

  def rollback(): Unit = tables.foreach(_.rollback())

  private def tables: Iterator[KeyGroupTable] = groups.iterator.filter(_ != null)

  /** The group's table; makes it if there is none.
    *
    * @param expected
    *   the number of entries of a family and group to make room for
    */
  def madeTable(
      group: Int,
      expected: (Int, Int) => Long = FamilyTable.NoneExpected
  ): KeyGroupTable = {
    if (loadedTable(group) == null)
      groups(group) = KeyGroupTable(family.layout, expected(family.id, group))
    groups(group)
  }

  /** Loads the entries of the source's groups when one of the entries is requested. */
  def loadOnDemand(source: GroupSource): Unit = awaited =
    new AwaitedGroups(family, source, groups.length)

  /** Gives away the entries of a group; None if they are not loaded. */
  def handOver(group: Int): Option[KeyGroupTable] =
    Option.when(awaited == null || !awaited.has(group)) {
      val table = groups(group)
      groups(group) = null
      if (table == null) KeyGroupTable(family.layout, expected = 0) else table
    }

  def takeOver(group: Int, table: KeyGroupTable): Unit = groups(group) = table

  /** The group's table; null if it has no entries. */
  private def loadedTable(group: Int): KeyGroupTable = {
    val table = groups(group)
    if (table == null && awaited != null) load(group) else table
  }

  // A method of its own, so that `loadedTable`, which every access calls, stays small.
  private def load(group: Int): KeyGroupTable = {
    awaited.take(group).foreach { case (group, table) => groups(group) = table }
    if (awaited.isEmpty) awaited = null
    groups(group)
  }
}

private object FamilyTable {
  private val NoneExpected: (Int, Int) => Long = (_, _) => 0
}
