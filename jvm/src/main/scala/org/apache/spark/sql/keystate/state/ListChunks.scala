package org.apache.spark.sql.keystate.state

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}

import keystate.backend.{Entry, GroupedKey}
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.spec.StateSpec

/** The stored form of a list: chunks under the user keys 0, 1, 2 ... (int64 big-endian). Each chunk
  * is an array of elements. So appending rewrites at most the last chunk, and only if that is
  * small.
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

  /** All chunks of a key's list, not yet decoded. */
  def read(entries: FamilyEntries, group: Int, key: Array[Byte]): Vector[Entry] = {
    val chunks = entries.scan(group, GroupedKey.prefix(key), null)
    try chunks.toVector
    finally chunks.close()
  }

  /** Adds elements that were used at `time`. Returns the key of the chunk that they are in. */
  def append(
      entries: FamilyEntries,
      group: Int,
      key: Array[Byte],
      elements: ArrayData,
      time: Long = Long.MinValue
  ): Array[Byte] = {
    val chunks = entries.scanReverse(group, GroupedKey.prefix(key), null)
    val last =
      try Option.when(chunks.hasNext)(chunks.next())
      finally chunks.close()
    // A chunk's elements have one time to live.
    val (at, chunk) = last match {
      case Some(chunk)
          if chunk.value.length < SmallChunk && entries.livesAsLong(time, chunk.value) =>
        (chunk.key, concat(decode(chunk.value), elements))
      case Some(chunk) =>
        val number = ByteBuffer.wrap(chunk.key).getLong(GroupedKey.userKeyOffset(chunk.key)) + 1
        (chunkKey(key, number), elements)
      case None =>
        (chunkKey(key, 0), elements)
    }
    entries.put(group, at, encode(chunk))
    at
  }

  /** The chunk of this number, with the elements of some arrays: its entry key and its value. */
  def chunk(key: Array[Byte], number: Long, parts: Seq[ArrayData]): (Array[Byte], Array[Byte]) = {
    val elements = parts.flatMap(_.toObjectArray(spec.valueType))
    (chunkKey(key, number), encode(new GenericArrayData(elements.toArray[Any])))
  }

  private def encode(array: ArrayData): Array[Byte] = {
    holder.update(0, array)
    StateRows.encode(projection(holder))
  }

  private def concat(a: ArrayData, b: ArrayData): ArrayData = new GenericArrayData(
    a.toObjectArray(spec.valueType) ++ b.toObjectArray(spec.valueType)
  )
}

private[keystate] object ListChunks {

  /** A last chunk with fewer bytes takes the next elements. Else these get a chunk of their own. */
  val SmallChunk = 4096

  private def chunkKey(key: Array[Byte], number: Long): Array[Byte] =
    GroupedKey.entry(key, ByteBuffer.allocate(8).putLong(number).array())
}
