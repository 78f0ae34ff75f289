package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.RocksDBKeyStateEncoder

/** The stored form of the keys of one of Spark's families: as Spark's encoder makes them, or in the
  * order of their prefixes.
  *
  * @param order
  *   None keeps the encoder's bytes
  */
private[keystate] final class SparkKeys(
    encoder: RocksDBKeyStateEncoder,
    order: Option[PrefixKeyOrder]
) {

  def supportPrefixKeyScan: Boolean = encoder.supportPrefixKeyScan

  def encodeKey(key: UnsafeRow): Array[Byte] = sorted(encoder.encodeKey(key))

  def encodePrefixKey(prefix: UnsafeRow): Array[Byte] = sorted(encoder.encodePrefixKey(prefix))

  def decodeKey(key: Array[Byte]): UnsafeRow =
    encoder.decodeKey(order.fold(key)(_.unsorted(key)))

  // The encoder makes a new array for each key.
  private def sorted(key: Array[Byte]): Array[Byte] = {
    if (order.nonEmpty) order.get.sort(key)
    key
  }
}
