package org.apache.spark.sql.keystate

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}

import keystate.backend.StateEntries
import keystate.ttl.TtlEntries

/** How a list is stored: in chunks under the user keys 0, 1, 2 ... (int64 big-endian), each an array
  * of elements, so that appending rewrites at most the last, small chunk.
  */
private[keystate] final class ListChunks(spec: StateSpec) {
  import ListChunks._

  private val projection = UnsafeProjection.create(spec.rowSchema)
  private val holder = new GenericInternalRow(1)

  /** The elements of a chunk. */
  def decode(value: Array[Byte]): ArrayData = {
    val row = new UnsafeRow(1)
    StateRows.point(row, value)
    row.getArray(0)
  }

  /** All chunks of a key's list. */
  def read(
      backend: StateEntries,
      family: Int,
      group: Int,
      key: Array[Byte]
  ): Vector[ArrayData] = {
    val entries = backend.scan(family, group, EntryKeys.prefix(key), null)
    try entries.map(chunk => decode(chunk.value)).toVector
    finally entries.close()
  }

  def append(
      backend: StateEntries,
      family: Int,
      group: Int,
      key: Array[Byte],
      elements: ArrayData
  ): Unit = {
    val chunks = backend.scanReverse(family, group, EntryKeys.prefix(key), null)
    val last =
      try Option.when(chunks.hasNext)(chunks.next())
      finally chunks.close()
    last match {
      case Some(chunk) if chunk.value.length < SmallChunk && isCurrent(backend, chunk.value) =>
        backend.put(family, group, chunk.key, encode(concat(decode(chunk.value), elements)))
      case Some(chunk) =>
        val number = ByteBuffer.wrap(chunk.key).getLong(EntryKeys.userKeyOffset(chunk.key)) + 1
        backend.put(family, group, chunkKey(key, number), encode(elements))
      case None =>
        backend.put(family, group, chunkKey(key, 0), encode(elements))
    }
  }

  /** The elements of a chunk have one time to live. */
  private def isCurrent(backend: StateEntries, chunk: Array[Byte]): Boolean = backend match {
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

private object ListChunks {

  /** Bytes below which the last chunk takes the next elements instead of a chunk of their own. */
  private val SmallChunk = 4096

  private def chunkKey(key: Array[Byte], number: Long): Array[Byte] =
    EntryKeys.entry(key, ByteBuffer.allocate(8).putLong(number).array())
}
