package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.{
  ArrowStreams, Elements, OrderedKeyCodec, ReceivedRows, StateRows, StoredValueWriter
}
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.BroadcastEntries

/** The columns of one broadcast state in a worker's messages, and its pages for the worker. */
private[keystate] final class BroadcastColumns(state: BroadcastEntries, index: Int) {
  private val spec = state.spec
  private val codec = OrderedKeyCodec(spec.keyType.get, spec.order)
  private val projection = UnsafeProjection.create(spec.rowSchema)
  private val pageSchema =
    new StructType()
      .add(Protocol.Page.Key, spec.keyType.get)
      .add(Protocol.Page.Value, spec.valueType)

  /** A page of entries, beginning with the key `from`. None: with the first entry. */
  def page(from: Option[Array[Byte]], limit: Int, format: ArrowStreams): Page = {
    val entries = state.scan(from)
    try {
      val data = format.write(pageSchema) { writers =>
        val keyRow = new GenericInternalRow(1)
        val values = new StoredValueWriter(spec.rowSchema, spec.isStruct, writers(1))
        var size = 0
        while (entries.hasNext && size < limit) {
          val entry = entries.next()
          codec.decode(entry.key, 0, keyRow, 0)
          writers(0).write(keyRow, 0)
          values.write(entry.value)
          size += 1
        }
        size
      }
      Page(data, Option.when(entries.hasNext)(entries.next().key))
    } finally entries.close()
  }

  /** Stores the changes of a worker's message. Returns how many entries it put and removed. */
  def apply(columns: String => ArrowColumnVector): (Long, Long) = {
    var removed =
      if (columns(Protocol.broadcastColumn(index, Protocol.Part.Reset)).getBoolean(0)) state.clear()
      else 0L
    val gone = columns(Protocol.broadcastColumn(index, Protocol.Part.Removed)).getArray(0)
    var i = 0
    while (i < gone.numElements()) {
      state.remove(codec.encode(gone, i))
      i += 1
    }
    removed += i
    val keys = columns(Protocol.broadcastColumn(index, Protocol.Part.Keys)).getArray(0)
    val values = new ReceivedRows(
      Elements(columns(Protocol.broadcastColumn(index, Protocol.Part.Values))),
      spec.isStruct
    )
    i = 0
    while (i < keys.numElements()) {
      val value =
        if (spec.isStruct && values.isNull(i)) StateRows.NullStruct
        else StateRows.encode(projection(values(i)))
      state.put(codec.encode(keys, i), value)
      i += 1
    }
    (i.toLong, removed)
  }
}
