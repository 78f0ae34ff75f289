package org.apache.spark.sql.keystate

import java.nio.ByteBuffer

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.StateEntries
import keystate.ttl.TtlEntries

/** List state. A list is stored in chunks under the user keys 0, 1, 2 ... (int64 big-endian), each
  * an array of elements, so that appending rewrites at most the last, small chunk. A list longer
  * than `inlineEntries` is not sent ahead; the worker gets a null and reads it by page.
  */
private[keystate] final class ListChannel(
    spec: StateSpec,
    index: Int,
    family: Int,
    backend: StateEntries,
    inlineEntries: Int
) extends StateChannel {
  import ListChannel._

  private val projection = UnsafeProjection.create(spec.rowSchema)
  private val holder = new GenericInternalRow(1)

  override def sender(column: String => ListVector): StateSender = new Sender(column(s"s$index"))

  private final class Sender(vector: ListVector) extends StateSender {
    private val inner = vector.getDataVector.asInstanceOf[ListVector]
    private val elements = ArrowWriter.createFieldWriter(inner.getDataVector)
    private val column = new ListsColumn(vector, Seq(elements))

    override def load(slots: KeySlots, from: Int, carried: Array[Int]): Unit = {
      var i = 0
      while (from + i < slots.size) {
        if (carried(i) >= 0) column.addNull()
        else chunks(slots.group(from + i), slots.key(from + i)).fold(column.addNull())(add)
        i += 1
      }
    }

    private def add(chunks: Seq[ArrayData]): Unit = {
      column.begin()
      chunks.foreach(chunk => (0 until chunk.numElements()).foreach(elements.write(chunk, _)))
      column.end(chunks.map(_.numElements()).sum)
    }

    override def finish(): Unit = column.finish()
    override def reset(): Unit = column.reset()
  }

  /** The list's chunks, or None when it is too long to send ahead. */
  private def chunks(group: Int, key: Array[Byte]): Option[Seq[ArrayData]] = {
    val entries = backend.scan(family, group, EntryKeys.prefix(key), null)
    try {
      val found = Seq.newBuilder[ArrayData]
      var size = 0
      while (entries.hasNext && size <= inlineEntries) {
        val chunk = read(entries.next().value)
        size += chunk.numElements()
        found += chunk
      }
      Option.when(size <= inlineEntries)(found.result())
    } finally entries.close()
  }

  private def read(value: Array[Byte]): ArrayData = {
    val row = new UnsafeRow(1)
    StateRows.point(row, value)
    row.getArray(0)
  }

  override def apply(slots: KeySlots, columns: String => ArrowColumnVector): (Long, Long) = {
    val changed = columns(s"s${index}_slot").getArray(0)
    val resets = columns(s"s${index}_reset").getArray(0)
    val added = Elements(columns(s"s$index"))
    var put = 0L
    var removed = 0L
    var i = 0
    while (i < changed.numElements()) {
      val slot = changed.getInt(i)
      val group = slots.group(slot)
      val key = slots.key(slot)
      if (resets.getBoolean(i)) removed += StateChannel.clear(backend, family, group, key)
      val elements = added.getArray(i)
      if (elements.numElements() > 0) {
        append(group, key, elements)
        put += 1
      }
      i += 1
    }
    (put, removed)
  }

  override def page(
      group: Int,
      key: Array[Byte],
      request: PageRequest,
      format: PageFormat
  ): Page = {
    val start = request.start.getOrElse(EntryKeys.prefix(key))
    val chunks = backend.scan(family, group, start, null)
    try {
      val data = format.write(new StructType().add("value", spec.valueType)) { writers =>
        var size = 0
        while (chunks.hasNext && size < request.limit) {
          val chunk = read(chunks.next().value)
          (0 until chunk.numElements()).foreach(writers.head.write(chunk, _))
          size += chunk.numElements()
        }
        size
      }
      Page(data, Option.when(chunks.hasNext)(chunks.next().key))
    } finally chunks.close()
  }

  private def append(group: Int, key: Array[Byte], elements: ArrayData): Unit = {
    val chunks = backend.scanReverse(family, group, EntryKeys.prefix(key), null)
    val last =
      try Option.when(chunks.hasNext)(chunks.next())
      finally chunks.close()
    last match {
      case Some(chunk) if chunk.value.length < SmallChunk && isCurrent(chunk.value) =>
        backend.put(family, group, chunk.key, encode(concat(read(chunk.value), elements)))
      case Some(chunk) =>
        val number = ByteBuffer.wrap(chunk.key).getLong(EntryKeys.userKeyOffset(chunk.key)) + 1
        backend.put(family, group, chunkKey(key, number), encode(elements))
      case None =>
        backend.put(family, group, chunkKey(key, 0), encode(elements))
    }
  }

  /** The elements of a chunk have one time to live. */
  private def isCurrent(chunk: Array[Byte]): Boolean = backend match {
    case ttl: TtlEntries => ttl.isCurrent(chunk)
    case _ => true
  }

  private def encode(array: ArrayData): Array[Byte] = {
    holder.update(0, array)
    StateRows.encode(projection(holder))
  }

  private def concat(a: ArrayData, b: ArrayData): ArrayData = new GenericArrayData(
    a.toObjectArray(spec.valueType) ++ b.toObjectArray(spec.valueType)
  )
}

private[keystate] object ListChannel {

  /** Bytes below which the last chunk takes the next elements instead of a chunk of their own. */
  private val SmallChunk = 4096

  private def chunkKey(key: Array[Byte], number: Long): Array[Byte] =
    EntryKeys.entry(key, ByteBuffer.allocate(8).putLong(number).array())
}
