package org.apache.spark.sql.keystate.checkpoint

import java.nio.ByteBuffer
import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

import keystate.backend.{Change, GroupedKey, StateFamily, StateValue}
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec}
import org.apache.spark.sql.keystate.store.KeystateCodec

/** The entries of a list state, with each element as its own entry: how a list is divided into
  * chunks depends on the micro-batches in which its elements came. For one thread.
  *
  * @param chunks
  *   the stored entries, ordered by group and key
  */
private[checkpoint] final class ListElements(family: StateFamily, chunks: Iterator[Change])
    extends Iterator[Change] {
  private val spec = StateSpec.of(family)
  private val types = (if (spec.schemas.isEmpty) Seq(spec.valueType) else spec.schemas).toIndexedSeq
  private val rows = types.map(kind => UnsafeProjection.create(Array(kind)))

  private var list = Array.emptyByteArray // the prefix of the entry keys of the current list
  private var group = -1
  private var position = 0L
  private val elements = chunks.flatMap(of)

  override def hasNext: Boolean = elements.hasNext

  override def next(): Change = elements.next()

  /** The elements as they are stored, each with what its chunk says of schema and time. */
  private def of(chunk: Change): Iterator[Change] = {
    val prefix = GroupedKey.prefixOf(chunk.key)
    if (chunk.group != group || !Arrays.equals(prefix, list)) position = 0
    list = prefix
    group = chunk.group
    val header = Arrays.copyOf(chunk.value, StateValue.rowOffset(chunk.value))
    val schema = Math.max(StateValue.schemaId(chunk.value), 0)
    val row = new UnsafeRow(1)
    StateRows.point(row, chunk.value)
    val array = row.getArray(0)
    (0 until array.numElements()).iterator.map { i =>
      val element = rows(schema)(InternalRow(array.get(i, types(schema))))
      val key = prefix ++ ByteBuffer.allocate(8).putLong(position).array()
      position += 1
      Change(chunk.family, chunk.group, key, header ++ element.getBytes)
    }
  }
}

private[checkpoint] object ListElements {

  /** Entries to compare: a list's entries are its elements. */
  def in(family: StateFamily, entries: Iterator[Change]): Iterator[Change] =
    if (KeystateCodec.owns(family) && StateSpec.of(family).kind == StateKind.List)
      new ListElements(family, entries)
    else entries
}
