package org.apache.spark.sql.keystate.python.messages

import scala.collection.mutable

import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.{EntryIterator, GroupedKey}
import org.apache.spark.sql.keystate.encoding.OrderedKeyCodec
import org.apache.spark.sql.keystate.spec.{Protocol, StateKind, StateSpec}
import org.apache.spark.sql.keystate.state.FamilyEntries

/** A worker's notes on a state whose time to live depends on data that only the worker has: which
  * entries the function used and, by event time, when. Besides the changes, its answers have a key
  * index and a time for each use. For a map they also have the user key. For a list they also say
  * whether the whole list was used, or only the last addition. For a value they also say whether it
  * was cleared before.
  */
private[messages] final class UseNotes(spec: StateSpec, index: Int, entries: FamilyEntries) {
  private lazy val codec = OrderedKeyCodec(spec.keyType.get, spec.order)

  /** Removes values that were cleared before they were set, before a message's changes are stored: a
    * new value was not used before.
    */
  def removeCleared(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): Unit =
    if (spec.kind == StateKind.Value) {
      def column(part: String) = columns(Protocol.stateColumn(index, part)).getArray(0)
      val (changed, resets) = (column(Protocol.Part.KeyIndex), column(Protocol.Part.Reset))
      (0 until changed.numElements()).foreach { i =>
        val keyIndex = changed.getInt(i)
        if (resets.getBoolean(i))
          entries.remove(keyIndexes.group(keyIndex), keyIndexes.key(keyIndex))
      }
    }

  /** Takes the notes of a message, whose changes are stored. */
  def apply(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): Unit = {
    def column(part: String) = columns(Protocol.stateColumn(index, part)).getArray(0)
    val used = column(Protocol.Part.UsedKeyIndex)
    val times = column(Protocol.Part.UsedTime)
    val touch: Int => Unit = spec.kind match {
      case StateKind.Value =>
        i => {
          val keyIndex = used.getInt(i)
          entries.touch(keyIndexes.group(keyIndex), keyIndexes.key(keyIndex), times.getLong(i))
        }
      case StateKind.List =>
        val whole = column(Protocol.Part.UsedWhole)
        i => {
          val keyIndex = used.getInt(i)
          touchList(
            keyIndexes.group(keyIndex),
            keyIndexes.key(keyIndex),
            times.getLong(i),
            whole.getBoolean(i)
          )
        }
      case StateKind.Map | StateKind.SortedMap =>
        val keys = column(Protocol.Part.UsedKeys)
        i => {
          val keyIndex = used.getInt(i)
          val key = GroupedKey.entry(keyIndexes.key(keyIndex), codec.encode(keys, i))
          entries.touch(keyIndexes.group(keyIndex), key, times.getLong(i))
        }
    }
    (0 until used.numElements()).foreach(touch)
  }

  private def touchList(group: Int, key: Array[Byte], time: Long, whole: Boolean): Unit = {
    val start = GroupedKey.prefix(key)
    val chunks: EntryIterator =
      if (whole) entries.scan(group, start, null)
      else entries.scanReverse(group, start, null)
    try
      (if (whole) chunks else chunks.take(1))
        .foreach(chunk => entries.touch(group, chunk.key, time))
    finally chunks.close()
  }
}

private[messages] object UseNotes {

  /** None if the worker has nothing to note. */
  def apply(spec: StateSpec, index: Int, entries: FamilyEntries): Option[UseNotes] =
    Option
      .when(entries.expires && spec.ttl.exists(_.needsNotes))(new UseNotes(spec, index, entries))

  /** When the elements that a list's keys get were added, by key index. By event time that is
    * theirs to live from, and a chunk of the list must have no others.
    */
  def timesOfAdded(
      spec: StateSpec,
      index: Int,
      entries: FamilyEntries,
      columns: String => ArrowColumnVector
  ): Int => Long =
    if (!entries.expires || !spec.ttl.exists(_.eventTime)) _ => Long.MinValue
    else {
      def column(part: String) = columns(Protocol.stateColumn(index, part)).getArray(0)
      val used = column(Protocol.Part.UsedKeyIndex)
      val at = column(Protocol.Part.UsedTime)
      val whole = column(Protocol.Part.UsedWhole)
      val times = new mutable.HashMap[Int, Long]
      (0 until used.numElements()).foreach { i =>
        if (!whole.getBoolean(i)) times(used.getInt(i)) = at.getLong(i)
      }
      times.getOrElse(_, Long.MinValue)
    }
}
