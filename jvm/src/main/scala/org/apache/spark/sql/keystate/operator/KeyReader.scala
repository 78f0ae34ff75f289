package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

import keystate.keygroup.KeyGroups

/** Reads a row's key and key group. */
private[keystate] final class KeyReader(
    keys: Seq[Expression],
    input: Seq[Attribute],
    maxParallelism: Int
) {
  private val keyOf = UnsafeProjection.create(keys, input)
  private val hashOf = UnsafeProjection.create(Seq(new Murmur3Hash(keys)), input)

  /** The number of key columns. */
  val width: Int = keys.size

  /** The row's key; the same object at every call. */
  def key(row: InternalRow): UnsafeRow = keyOf(row)

  def group(row: InternalRow): Int = KeyGroups.groupOf(hashOf(row).getInt(0), maxParallelism)
}
