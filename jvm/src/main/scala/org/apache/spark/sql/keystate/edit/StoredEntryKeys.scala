package org.apache.spark.sql.keystate.edit

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

import keystate.backend.{GroupedKey, Layout, StateFamily}
import org.apache.spark.sql.keystate.operator.{KeyReader, Routing}
import org.apache.spark.sql.keystate.state.TimerKeys

/** Reads the keys in stored entry keys. For one thread. */
private[keystate] final class StoredEntryKeys(keySchema: StructType, maxParallelism: Int) {
  private val attributes: Seq[Attribute] = DataTypeUtils.toAttributes(keySchema)
  private val reader = new KeyReader(Routing.normalized(attributes), attributes, maxParallelism)
  private val row = new UnsafeRow(keySchema.length)

  /** The key group of an entry's key, given `maxParallelism` groups. */
  def groupOf(family: StateFamily, entry: Array[Byte]): Int = {
    point(family, entry)
    reader.group(row)
  }

  /** The key, for messages. */
  def show(family: StateFamily, entry: Array[Byte]): String = {
    point(family, entry)
    String.valueOf(CatalystTypeConverters.convertToScala(row, keySchema))
  }

  private def point(family: StateFamily, entry: Array[Byte]): Unit = {
    val key = family.layout match {
      case Layout.Point => entry
      case Layout.Grouped => GroupedKey.keyOf(entry)
      case Layout.Ordered => TimerKeys.of(family).get.keyOf(entry)
    }
    row.pointTo(key, key.length)
  }
}
