package org.apache.spark.sql.keystate.state

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.{ObjectCodec, OrderedKeyCodec}
import org.apache.spark.sql.keystate.spec.StateSpec

/** The keys of a map: as objects, and as the bytes of their entries' user keys. */
private[keystate] final class MapKeyCodec(spec: StateSpec, codec: ObjectCodec) {
  private val order = OrderedKeyCodec(spec.keyType.get, spec.order)
  private val row = new GenericInternalRow(1)

  def encode(key: Any): Array[Byte] = {
    val field = KeystateErrors.inState(spec.name, spec.describe)(codec.asField(key))
    // An option that is none too: the order's codecs do not look.
    if (field.isNullAt(0)) throw KeystateErrors.nullUserKey(spec.name, spec.describe)
    KeystateErrors.inState(spec.name, spec.describe)(order.encode(field, 0))
  }

  /** The key that the bytes from `offset` on encode. */
  def decode(bytes: Array[Byte], offset: Int): Any = {
    order.decode(bytes, offset, row, 0)
    codec.fromField(row, 0)
  }
}
