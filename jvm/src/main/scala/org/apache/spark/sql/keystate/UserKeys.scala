package org.apache.spark.sql.keystate

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

/** The keys of a map, as objects and as the bytes that its entries are found by. */
private[keystate] final class UserKeys(spec: StateSpec, codec: ObjectCodec) {
  private val order = OrderedKeyCodec(spec.keyType.get, spec.order)
  private val row = new GenericInternalRow(1)

  def encode(key: Any): Array[Byte] = {
    if (key == null) throw KeystateErrors.nullUserKey(spec)
    KeystateErrors.inState(spec)(order.encode(codec.asField(key), 0))
  }

  /** The key that the bytes from `offset` on encode. */
  def decode(bytes: Array[Byte], offset: Int): Any = {
    order.decode(bytes, offset, row, 0)
    codec.fromField(row, 0)
  }
}
