package keystate.backend.heap

import java.util.NavigableMap

import keystate.backend.{Entry, EntryIterator}

/** Reads a range of a sorted map piece by piece, and finds its place again by the last key it read.
  * So the map may change at any time: an entry that stays is given exactly once. Pieces grow, so
  * that it is cheap to ask for the first entry only, and cheap to read all of them.
  *
  * @param range
  *   a view of the map, in the order to read; null for no entries
  */
private[heap] final class SortedEntriesIterator(range: NavigableMap[Array[Byte], Array[Byte]])
    extends EntryIterator {
  import SortedEntriesIterator._

  private var rest = range
  private var piece = new Array[Entry](FirstPiece)
  private var filled = 0
  private var position = 0

  override def hasNext: Boolean = {
    if (position == filled && rest != null) readPiece()
    position < filled
  }

  override def next(): Entry = {
    if (!hasNext) Iterator.empty.next()
    position += 1
    piece(position - 1)
  }

  override def close(): Unit = {
    rest = null
    position = filled
  }

  private def readPiece(): Unit = {
    if (filled == piece.length && filled < LastPiece) piece = new Array[Entry](filled * 4)
    filled = 0
    position = 0
    val entries = rest.entrySet.iterator
    while (filled < piece.length && entries.hasNext) {
      val entry = entries.next()
      piece(filled) = new Entry(entry.getKey, entry.getValue)
      filled += 1
    }
    rest = if (filled < piece.length) null else rest.tailMap(piece(filled - 1).key, false)
  }
}

private[heap] object SortedEntriesIterator {
  private final val FirstPiece = 4
  private final val LastPiece = 256

  def empty: EntryIterator = new SortedEntriesIterator(null)
}
