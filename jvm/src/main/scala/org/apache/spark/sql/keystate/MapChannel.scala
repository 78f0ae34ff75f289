package org.apache.spark.sql.keystate

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.arrow.{ArrowFieldWriter, ArrowWriter}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray}

import keystate.backend.{Entry, StateEntries}

/** Map and sorted map state: one stored entry a user key, in the order of the user keys. A map larger than
  * `inline` is not sent ahead; the worker gets nulls and asks for what it needs.
  */
private[keystate] final class MapChannel(
    spec: StateSpec,
    index: Int,
    family: Int,
    backend: StateEntries,
    inline: Inline
) extends StateChannel {
  private val codec = OrderedKeyCodec(spec.keyType.get, spec.order)
  private val projection = UnsafeProjection.create(spec.rowSchema)

  override def sender(column: String => ListVector): StateSender =
    new Sender(column(s"s${index}_k"), column(s"s${index}_v"))

  private final class Sender(keyVector: ListVector, valueVector: ListVector) extends StateSender {
    private val keyWriter = elementWriter(keyVector)
    private val valueWriter = elementWriter(valueVector)
    private val keys = new ListsColumn(keyVector, Seq(keyWriter))
    private val values = new ListsColumn(valueVector, Seq(valueWriter))
    private val writer = new EntryWriter(spec, codec, keyWriter, valueWriter)

    override def load(slots: KeySlots, from: Int, carried: Array[Int]): Long = {
      var bytes = 0L
      var i = 0
      while (from + i < slots.size) {
        if (carried(i) >= 0) addNull()
        else bytes += send(slots.group(from + i), slots.key(from + i))
        i += 1
      }
      bytes
    }

    /** Returns how many bytes were sent. */
    private def send(group: Int, key: Array[Byte]): Long = {
      val entries = backend.scan(family, group, EntryKeys.prefix(key), null)
      try {
        val found = Array.newBuilder[Entry]
        var bytes = 0L
        while (entries.hasNext && inline.fits(found.length, bytes)) {
          val entry = entries.next()
          bytes += MapChannel.bytes(entry)
          found += entry
        }
        val whole = inline.fits(found.length, bytes)
        if (whole) add(found.result()) else addNull()
        if (whole) bytes else 0
      } finally entries.close()
    }

    private def add(entries: Array[Entry]): Unit = {
      keys.begin()
      values.begin()
      entries.foreach(writer.write)
      keys.end(entries.length)
      values.end(entries.length)
    }

    private def addNull(): Unit = {
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

  private def elementWriter(vector: ListVector): ArrowFieldWriter =
    ArrowWriter.createFieldWriter(vector.getDataVector.asInstanceOf[ListVector].getDataVector)

  override def apply(slots: KeySlots, columns: String => ArrowColumnVector): (Long, Long) = {
    val changed = columns(s"s${index}_slot").getArray(0)
    val resets = columns(s"s${index}_reset").getArray(0)
    val putKeys = Elements(columns(s"s${index}_k"))
    val removedKeys = Elements(columns(s"s${index}_d"))
    val values = new ReceivedRows(Elements(Elements(columns(s"s${index}_v"))), spec.isStruct)
    var put = 0
    var removed = 0L
    var i = 0
    while (i < changed.numElements()) {
      val slot = changed.getInt(i)
      val group = slots.group(slot)
      val key = slots.key(slot)
      if (resets.getBoolean(i)) removed += StateChannel.clear(backend, family, group, key)
      removed += remove(group, key, removedKeys.getArray(i))
      val userKeys = putKeys.getArray(i)
      var j = 0
      while (j < userKeys.numElements()) {
        val value =
          if (spec.isStruct && values.isNull(put)) StateRows.NullStruct
          else StateRows.encode(projection(values(put)))
        backend.put(family, group, EntryKeys.entry(key, codec.encode(userKeys, j)), value)
        put += 1
        j += 1
      }
      i += 1
    }
    (put.toLong, removed)
  }

  private val pageSchema =
    new StructType().add("key", spec.keyType.get).add("value", spec.valueType)

  override def page(
      group: Int,
      key: Array[Byte],
      request: PageRequest,
      format: PageFormat
  ): Page = {
    val start = request.start.getOrElse(EntryKeys.prefix(key))
    val end = request.end.orNull
    val entries =
      if (request.reverse) backend.scanReverse(family, group, start, end)
      else backend.scan(family, group, start, end)
    try {
      var last: Array[Byte] = null
      val data = format.write(pageSchema) { writers =>
        val writer = new EntryWriter(spec, codec, writers(0), writers(1))
        var size = 0
        var bytes = 0L
        while (entries.hasNext && size < request.limit && bytes < StateChannel.PageBytes) {
          val entry = entries.next()
          writer.write(entry)
          bytes += MapChannel.bytes(entry)
          last = entry.key
          size += 1
        }
        size
      }
      // The start of a range is in it, its end is not.
      val next = Option.when(entries.hasNext)(if (request.reverse) last else entries.next().key)
      Page(data, next)
    } finally entries.close()
  }

  override def find(
      group: Int,
      key: Array[Byte],
      userKeys: ArrowColumnVector,
      format: PageFormat
  ): Array[Byte] = format.write(new StructType().add("value", spec.valueType)) { writers =>
    val writer = new StoredValueWriter(spec, writers.head)
    val found = entryKeys(key, userKeys).map(backend.get(family, group, _)).filter(_ != null)
    found.foreach(writer.write)
    found.size
  }

  override def entryKeys(key: Array[Byte], userKeys: ArrowColumnVector): Seq[Array[Byte]] =
    Range(0, userKeys.getValueVector.getValueCount).map { i =>
      EntryKeys.entry(key, codec.encode(new ColumnarArray(userKeys, i, 1), 0))
    }

  private def remove(group: Int, key: Array[Byte], userKeys: ColumnarArray): Long = {
    var j = 0
    while (j < userKeys.numElements()) {
      backend.remove(family, group, EntryKeys.entry(key, codec.encode(userKeys, j)))
      j += 1
    }
    userKeys.numElements().toLong
  }
}

private object MapChannel {
  private def bytes(entry: Entry): Long = entry.key.length.toLong + entry.value.length
}

/** Writes stored map entries as keys and values into Arrow. */
private[keystate] final class EntryWriter(
    spec: StateSpec,
    codec: OrderedKeyCodec,
    keys: ArrowFieldWriter,
    values: ArrowFieldWriter
) {
  private val keyRow = new GenericInternalRow(1)
  private val valueWriter = new StoredValueWriter(spec, values)

  def write(entry: Entry): Unit = {
    codec.decode(entry.key, EntryKeys.userKeyOffset(entry.key), keyRow, 0)
    keys.write(keyRow, 0)
    valueWriter.write(entry.value)
  }
}

/** Writes stored values into Arrow. */
private[keystate] final class StoredValueWriter(spec: StateSpec, values: ArrowFieldWriter) {
  private val holder = new GenericInternalRow(1)
  private val stored = new UnsafeRow(spec.rowSchema.length)

  def write(bytes: Array[Byte]): Unit =
    if (bytes == null || StateRows.isNull(bytes)) {
      holder.setNullAt(0)
      values.write(holder, 0)
    } else {
      StateRows.point(stored, bytes)
      if (spec.isStruct) {
        holder.update(0, stored)
        values.write(holder, 0)
      } else {
        values.write(stored, 0)
      }
    }
}
