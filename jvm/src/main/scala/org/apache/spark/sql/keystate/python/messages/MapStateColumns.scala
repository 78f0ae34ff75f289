package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray}

import keystate.backend.{Entry, GroupedKey}
import org.apache.spark.sql.keystate.encoding.{
  ArrowStreams, Elements, OrderedKeyCodec, ReceivedRows, StateRows, StoredValueWriter
}
import org.apache.spark.sql.keystate.shim.ArrowWriters
import org.apache.spark.sql.keystate.spec.{Protocol, StateSpec}
import org.apache.spark.sql.keystate.state.FamilyEntries

/** Map and sorted map state: one stored entry for each user key, in the order of the user keys. A
  * map that is larger than `inline` is not sent ahead: the worker gets nulls and asks for the
  * entries that it needs.
  */
private[keystate] final class MapStateColumns(
    spec: StateSpec,
    index: Int,
    entries: FamilyEntries,
    inline: Inline
) extends PagedColumns {
  private val codec = OrderedKeyCodec(spec.keyType.get, spec.order)
  private val projection = UnsafeProjection.create(spec.rowSchema)

  override def sender(column: String => ListVector): StateSender =
    new Sender(
      column(Protocol.stateColumn(index, Protocol.Part.Keys)),
      column(Protocol.stateColumn(index, Protocol.Part.Values))
    )

  private final class Sender(keyVector: ListVector, valueVector: ListVector) extends EntriesSender {
    private val keyWriter = elementWriter(keyVector)
    private val valueWriter = elementWriter(valueVector)
    private val keys = new ListsColumn(keyVector, Seq(keyWriter))
    private val values = new ListsColumn(valueVector, Seq(valueWriter))
    private val writer = new EntryWriter(spec, codec, keyWriter, valueWriter)

    override protected def send(group: Int, key: Array[Byte]): Long = {
      val stored = entries.scan(group, GroupedKey.prefix(key), null)
      try {
        val found = Array.newBuilder[Entry]
        var bytes = 0L
        while (stored.hasNext && inline.fits(found.length, bytes)) {
          val entry = stored.next()
          bytes += MapStateColumns.bytes(entry)
          found += entry
        }
        val whole = inline.fits(found.length, bytes)
        if (whole) add(found.result()) else addNull()
        if (whole) bytes else 0
      } finally stored.close()
    }

    private def add(entries: Array[Entry]): Unit = {
      keys.begin()
      values.begin()
      entries.foreach(writer.write)
      keys.end(entries.length)
      values.end(entries.length)
    }

    override protected def addNull(): Unit = {
      keys.addNull()
      values.addNull()
    }

    override def finish(): Unit = {
      keys.finish()
      values.finish()
    }

    override def reset(): Unit = {
      keys.reset()
      values.reset()
    }
  }

  private def elementWriter(vector: ListVector): ArrowWriters.FieldWriter =
    ArrowWriters.of(vector.getDataVector.asInstanceOf[ListVector].getDataVector)

  override def apply(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): (Long, Long) = {
    val changed = new ChangedKeys(keyIndexes, columns, index, entries)
    val putKeys = Elements(columns(Protocol.stateColumn(index, Protocol.Part.Keys)))
    val removedKeys = Elements(columns(Protocol.stateColumn(index, Protocol.Part.Removed)))
    val values =
      new ReceivedRows(
        Elements(Elements(columns(Protocol.stateColumn(index, Protocol.Part.Values)))),
        spec.isStruct
      )
    var put = 0
    var removed = 0L
    while (changed.next()) {
      val group = changed.group
      val key = changed.key
      removed += remove(group, key, removedKeys.getArray(changed.index))
      val userKeys = putKeys.getArray(changed.index)
      var j = 0
      while (j < userKeys.numElements()) {
        val value =
          if (spec.isStruct && values.isNull(put)) StateRows.NullStruct
          else StateRows.encode(projection(values(put)))
        entries.put(group, GroupedKey.entry(key, codec.encode(userKeys, j)), value)
        put += 1
        j += 1
      }
    }
    (put.toLong, removed + changed.removed)
  }

  private val pageSchema =
    new StructType()
      .add(Protocol.Page.Key, spec.keyType.get)
      .add(Protocol.Page.Value, spec.valueType)

  override def page(
      group: Int,
      key: Array[Byte],
      request: PageRequest,
      format: ArrowStreams
  ): Page = {
    val start = request.start.getOrElse(GroupedKey.prefix(key))
    val end = request.end.orNull
    val stored =
      if (request.reverse) entries.scanReverse(group, start, end)
      else entries.scan(group, start, end)
    try {
      var last: Array[Byte] = null
      val data = format.write(pageSchema) { writers =>
        val writer = new EntryWriter(spec, codec, writers(0), writers(1))
        var size = 0
        var bytes = 0L
        while (stored.hasNext && size < request.limit && bytes < StateColumns.PageBytes) {
          val entry = stored.next()
          writer.write(entry)
          bytes += MapStateColumns.bytes(entry)
          last = entry.key
          size += 1
        }
        size
      }
      // The start of a range belongs to it, the end does not.
      val next = Option.when(stored.hasNext)(if (request.reverse) last else stored.next().key)
      Page(data, next)
    } finally stored.close()
  }

  /** The values of those of the user keys that exist in the key's map. */
  def find(
      group: Int,
      key: Array[Byte],
      userKeys: ArrowColumnVector,
      format: ArrowStreams
  ): Array[Byte] = format.write(new StructType().add(Protocol.Page.Value, spec.valueType)) {
    writers =>
      val writer = new StoredValueWriter(spec.rowSchema, spec.isStruct, writers.head)
      val found = entryKeys(key, userKeys).map(entries.get(group, _)).filter(_ != null)
      found.foreach(writer.write)
      found.size
  }

  /** The entry keys of these user keys. */
  def entryKeys(key: Array[Byte], userKeys: ArrowColumnVector): Seq[Array[Byte]] =
    Range(0, userKeys.getValueVector.getValueCount).map { i =>
      GroupedKey.entry(key, codec.encode(new ColumnarArray(userKeys, i, 1), 0))
    }

  private def remove(group: Int, key: Array[Byte], userKeys: ColumnarArray): Long = {
    var j = 0
    while (j < userKeys.numElements()) {
      entries.remove(group, GroupedKey.entry(key, codec.encode(userKeys, j)))
      j += 1
    }
    userKeys.numElements().toLong
  }
}

private object MapStateColumns {
  private def bytes(entry: Entry): Long = entry.key.length.toLong + entry.value.length
}

/** Writes stored map entries into Arrow, as keys and values. */
private[keystate] final class EntryWriter(
    spec: StateSpec,
    codec: OrderedKeyCodec,
    keys: ArrowWriters.FieldWriter,
    values: ArrowWriters.FieldWriter
) {
  private val keyRow = new GenericInternalRow(1)
  private val valueWriter = new StoredValueWriter(spec.rowSchema, spec.isStruct, values)

  def write(entry: Entry): Unit = {
    codec.decode(entry.key, GroupedKey.userKeyOffset(entry.key), keyRow, 0)
    keys.write(keyRow, 0)
    valueWriter.write(entry.value)
  }
}
