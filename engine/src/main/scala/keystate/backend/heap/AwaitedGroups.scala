package keystate.backend.heap

import scala.collection.mutable

import keystate.backend.{ChangeSink, GroupSource, StateFamily}
import keystate.keygroup.KeyGroupRange

/** The groups of a family that are not loaded yet.
  *
  * @param groups
  *   one more than the number of the last group there can be
  */
private[heap] final class AwaitedGroups(family: StateFamily, source: GroupSource, groups: Int) {
  // By group, the piece with which the group is loaded; null if the group is loaded.
  private val pieces = new Array[KeyGroupRange](groups)
  private var left = 0L
  private var piecesLeft = 0

  for (piece <- source.pieces) {
    piecesLeft += 1
    for (group <- piece.first to piece.last) {
      pieces(group) = piece
      left += source.count(group)
    }
  }

  def isEmpty: Boolean = piecesLeft == 0

  def has(group: Int): Boolean = pieces(group) != null

  /** The number of entries that are not loaded. */
  def count: Long = left

  /** The number of entries of this group that are not loaded. */
  def count(group: Int): Long = if (has(group)) source.count(group) else 0

  /** The tables of all groups that are loaded together with this one, by group, as far as they have
    * entries. None if it is not awaited. After an error all of them are awaited as before.
    */
  def take(group: Int): collection.Map[Int, KeyGroupTable] = {
    val piece = pieces(group)
    if (piece == null) Map.empty
    else {
      val tables = mutable.LongMap.empty[KeyGroupTable]
      source.load(piece, intoTables(tables))
      for (group <- piece.first to piece.last) {
        pieces(group) = null
        left -= source.count(group)
      }
      piecesLeft -= 1
      tables.map { case (group, table) => group.toInt -> table }
    }
  }

  private def intoTables(tables: mutable.LongMap[KeyGroupTable]): ChangeSink = new ChangeSink {
    // Entries of a group follow each other.
    private var last = -1
    private var table: KeyGroupTable = _

    override def add(
        id: Int,
        group: Int,
        key: Array[Byte],
        keyStart: Int,
        keyLength: Int,
        value: Array[Byte],
        valueStart: Int,
        valueLength: Int
    ): Unit = {
      if (group != last) {
        last = group
        table = tables
          .getOrElseUpdate(group.toLong, KeyGroupTable(family.layout, source.count(group)))
      }
      table.load(key, keyStart, keyLength, value, valueStart, valueLength)
    }
  }
}
