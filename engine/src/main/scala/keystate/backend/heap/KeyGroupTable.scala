package keystate.backend.heap

import keystate.backend.{ChangeSink, EntryIterator, GroupEntries, Layout}

/** The entries of one key group of one family, and the open transaction's changes of them. One
  * thread at a time. Arrays that are passed in or returned must not be changed afterwards.
  */
private[heap] abstract class KeyGroupTable extends GroupEntries {

  /** The value; null when there is none. */
  def get(key: Array[Byte]): Array[Byte]
  def put(key: Array[Byte], value: Array[Byte]): Unit

  /** Returns whether there was such an entry. */
  def remove(key: Array[Byte]): Boolean

  /** Like put (or remove if the value is null), but not as a change. Key and value are parts of
    * arrays, which the table does not keep.
    */
  def load(
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Unit

  /** The entries from `start` (inclusive; null: from the first) to `end` (exclusive; null: to the
    * last), from last to first if `reverse`. See [[keystate.backend.StateEntries]] for what each
    * layout allows.
    */
  def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator

  /** The number of entries. */
  def size: Int

  /** Estimate of the memory they take, in bytes. */
  def bytes: Long

  /** Hands out the changes in the order of the keys. */
  def writeChanges(family: Int, group: Int, sink: ChangeSink): Unit

  /** The number of entries that the transaction has changed. */
  def changeCount: Int

  /** Ends the transaction and keeps its changes. */
  def changesCommitted(): Unit

  /** Ends the transaction and undoes its changes. */
  def rollback(): Unit
}

private[heap] object KeyGroupTable {

  /** An empty table for states of this layout.
    *
    * @param expected
    *   how many entries it will have; 0 if that is not known
    */
  def apply(layout: Layout, expected: Long): KeyGroupTable = layout match {
    case Layout.Point => new PointTable(expected)
    case Layout.Grouped => new GroupedTable
    case Layout.Ordered => new OrderedTable
  }
}
