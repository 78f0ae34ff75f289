package org.apache.spark.sql.keystate.python.columns

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray}

import keystate.backend.{EntryIterator, GroupedKey}
import keystate.ttl.TtlEntries
import org.apache.spark.sql.keystate.encoding.{ArrowStreams, OrderedKeyCodec}
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec}
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** A state whose time to live depends on what only the worker knows: which entries the function
  * used and, by event time, when. Besides the changes, its answers have a slot and a time for each
  * use. For a map they also have the user key. For a list they also say whether the whole list was
  * used, or only what was added last. For a value they also say whether it was cleared before.
  */
private[keystate] final class UseNotes(
    channel: StateColumns,
    spec: StateSpec,
    index: Int,
    family: Int,
    entries: TtlEntries
) extends StateColumns {
  private lazy val codec = OrderedKeyCodec(spec.keyType.get, spec.order)

  override def sender(column: String => ListVector): StateSender = channel.sender(column)

  override def packedSender(bytes: PackedBytes): StateSender = channel.packedSender(bytes)

  override def apply(slots: KeySlots, columns: String => ArrowColumnVector): (Long, Long) = {
    def column(part: String) = columns(Protocol.stateColumn(index, part)).getArray(0)
    if (spec.kind == StateKind.Value)
      removeFirst(slots, column(Protocol.Part.Slot), column(Protocol.Part.Reset))
    val counts = channel.apply(slots, columns)
    val used = column(Protocol.Part.UsedSlot)
    val times = column(Protocol.Part.UsedTime)
    val touch: Int => Unit = spec.kind match {
      case StateKind.Value =>
        i => {
          val slot = used.getInt(i)
          entries.touch(family, slots.group(slot), slots.key(slot), times.getLong(i))
        }
      case StateKind.List =>
        val whole = column(Protocol.Part.UsedWhole)
        i => {
          val slot = used.getInt(i)
          touchList(slots.group(slot), slots.key(slot), times.getLong(i), whole.getBoolean(i))
        }
      case StateKind.Map | StateKind.SortedMap =>
        val keys = column(Protocol.Part.UsedKeys)
        i => {
          val slot = used.getInt(i)
          val key = GroupedKey.entry(slots.key(slot), codec.encode(keys, i))
          entries.touch(family, slots.group(slot), key, times.getLong(i))
        }
      case StateKind.Broadcast => StateKind.notKeyed
    }
    (0 until used.numElements()).foreach(touch)
    counts
  }

  /** Removes values that were cleared before they were set: a new one was not used before. */
  private def removeFirst(slots: KeySlots, changed: ColumnarArray, resets: ColumnarArray): Unit =
    (0 until changed.numElements()).filter(resets.getBoolean).map(changed.getInt).foreach { slot =>
      entries.remove(family, slots.group(slot), slots.key(slot))
    }

  private def touchList(group: Int, key: Array[Byte], time: Long, whole: Boolean): Unit = {
    val start = GroupedKey.prefix(key)
    val chunks: EntryIterator =
      if (whole) entries.scan(family, group, start, null)
      else entries.scanReverse(family, group, start, null)
    try
      (if (whole) chunks else chunks.take(1))
        .foreach(chunk => entries.touch(family, group, chunk.key, time))
    finally chunks.close()
  }

  override def page(
      group: Int,
      key: Array[Byte],
      request: PageRequest,
      format: ArrowStreams
  ): Page = channel.page(group, key, request, format)

  override def find(
      group: Int,
      key: Array[Byte],
      userKeys: ArrowColumnVector,
      format: ArrowStreams
  ): Array[Byte] = channel.find(group, key, userKeys, format)

  override def entryKeys(key: Array[Byte], userKeys: ArrowColumnVector): Seq[Array[Byte]] =
    channel.entryKeys(key, userKeys)
}
