package keystate.backend.heap

import keystate.backend.{ChangeSink, EntryIterator, Layout}

/** The entries of one key group of one family, and what the open transaction changed of them. */
private[heap] abstract class KeyGroupTable {
  def get(key: Array[Byte]): Array[Byte]
  def put(key: Array[Byte], value: Array[Byte]): Unit
  def remove(key: Array[Byte]): Unit

  /** Like put and remove, but not a change. */
  def load(key: Array[Byte], value: Array[Byte]): Unit

  def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator

  /** How many entries there are. */
  def size: Int

  /** Estimate of the memory they take. */
  def bytes: Long

  /** Hands out the changes, sorted by key. */
  def writeChanges(family: Int, group: Int, sink: ChangeSink): Unit
  def changeCount: Int
  def changesCommitted(): Unit
  def rollback(): Unit
}

private[heap] object KeyGroupTable {
  def apply(layout: Layout): KeyGroupTable = layout match {
    case Layout.Point => new PointTable
    case Layout.Grouped => new GroupedTable
    case Layout.Ordered => new OrderedTable
  }
}
