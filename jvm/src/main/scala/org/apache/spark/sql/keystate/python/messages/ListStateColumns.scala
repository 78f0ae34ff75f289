package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.GroupedKey
import org.apache.spark.sql.keystate.encoding.{ArrowStreams, Elements}
import org.apache.spark.sql.keystate.shim.ArrowWriters
import org.apache.spark.sql.keystate.spec.{Protocol, StateSpec}
import org.apache.spark.sql.keystate.state.{FamilyEntries, ListChunks}

/** List state. A list that is larger than `inline` is not sent ahead: the worker gets a null and
  * asks for the list page by page.
  */
private[keystate] final class ListStateColumns(
    spec: StateSpec,
    index: Int,
    entries: FamilyEntries,
    inline: Inline
) extends PagedColumns {
  private val lists = new ListChunks(spec)

  override def sender(column: String => ListVector): StateSender = new Sender(
    column(Protocol.stateColumn(index))
  )

  private final class Sender(vector: ListVector) extends EntriesSender {
    private val inner = vector.getDataVector.asInstanceOf[ListVector]
    private val elements = ArrowWriters.of(inner.getDataVector)
    private val column = new ListsColumn(vector, Seq(elements))

    override protected def send(group: Int, key: Array[Byte]): Long = {
      val chunks = entries.scan(group, GroupedKey.prefix(key), null)
      try {
        val found = Seq.newBuilder[ArrayData]
        var size = 0
        var bytes = 0L
        while (chunks.hasNext && inline.fits(size, bytes)) {
          val stored = chunks.next().value
          val chunk = lists.decode(stored)
          size += chunk.numElements()
          bytes += stored.length
          found += chunk
        }
        val whole = inline.fits(size, bytes)
        if (whole) add(found.result()) else column.addNull()
        if (whole) bytes else 0
      } finally chunks.close()
    }

    private def add(found: Seq[ArrayData]): Unit = {
      column.begin()
      found.foreach(chunk => (0 until chunk.numElements()).foreach(elements.write(chunk, _)))
      column.end(found.map(_.numElements()).sum)
    }

    override protected def addNull(): Unit = column.addNull()

    override def finish(): Unit = column.finish()
    override def reset(): Unit = column.reset()
  }

  override def apply(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): (Long, Long) = {
    val changed = new ChangedKeys(keyIndexes, columns, index, entries)
    val added = Elements(columns(Protocol.stateColumn(index)))
    val times = UseNotes.timesOfAdded(spec, index, entries, columns)
    var put = 0L
    while (changed.next()) {
      val elements = added.getArray(changed.index)
      if (elements.numElements() > 0) {
        lists.append(entries, changed.group, changed.key, elements, times(changed.keyIndex))
        put += 1
      }
    }
    (put, changed.removed)
  }

  override def page(
      group: Int,
      key: Array[Byte],
      request: PageRequest,
      format: ArrowStreams
  ): Page = {
    val start = request.start.getOrElse(GroupedKey.prefix(key))
    val chunks = entries.scan(group, start, null)
    try {
      val data = format.write(new StructType().add(Protocol.Page.Value, spec.valueType)) {
        writers =>
          var size = 0
          var bytes = 0L
          while (chunks.hasNext && size < request.limit && bytes < StateColumns.PageBytes) {
            val stored = chunks.next().value
            val chunk = lists.decode(stored)
            bytes += stored.length
            (0 until chunk.numElements()).foreach(writers.head.write(chunk, _))
            size += chunk.numElements()
          }
          size
      }
      Page(data, Option.when(chunks.hasNext)(chunks.next().key))
    } finally chunks.close()
  }
}
