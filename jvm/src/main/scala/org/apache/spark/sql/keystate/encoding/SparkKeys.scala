package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.RocksDBKeyStateEncoder

import keystate.backend.StateFamily

/** How the keys of one of Spark's families are stored: as Spark's encoder makes them, or in the order
  * of their prefixes.
  *
  * @param order
  *   that of a new family
  * @param stored
  *   the family's properties
  */
private[keystate] final class SparkKeys(
    encoder: RocksDBKeyStateEncoder,
    order: Option[PrefixKeyOrder],
    stored: Map[String, String]
) {
  private val own = order.filter(_ => stored.contains(StateFamily.Sorted))
  require(
    own.nonEmpty || !stored.contains(StateFamily.Sorted),
    "the family's keys are stored in an order that keys of this schema and encoding do not have"
  )

  def supportPrefixKeyScan: Boolean = encoder.supportPrefixKeyScan

  def encodeKey(key: UnsafeRow): Array[Byte] = sorted(encoder.encodeKey(key))

  def encodePrefixKey(prefix: UnsafeRow): Array[Byte] = sorted(encoder.encodePrefixKey(prefix))

  def decodeKey(key: Array[Byte]): UnsafeRow =
    encoder.decodeKey(if (own.isEmpty) key else own.get.unsorted(key))

  // The encoder makes a new array for each key.
  private def sorted(key: Array[Byte]): Array[Byte] = {
    if (own.nonEmpty) own.get.sort(key)
    key
  }
}
