package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder

/** Copies values of one type, on a driver and where it was sent to. For one thread at a time. */
final class ValueCopies private (encoder: ExpressionEncoder[Any]) extends Serializable {
  @transient private lazy val codec = new ObjectCodec(encoder)

  /** The type of the values, as SQL writes it. */
  def typeName: String = ObjectCodec.dataType(encoder).sql

  /** The value as a state that stored it would give it. Throws if that could not store it. */
  def apply(value: Any): Any = codec.copy(value)
}

object ValueCopies {

  /** Make it on the driver: an unbound encoder does not survive serialisation. */
  def apply(encoder: Encoder[_]): ValueCopies =
    new ValueCopies(ObjectCodec.bound(ObjectCodec.expression(encoder)))
}
