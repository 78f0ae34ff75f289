package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders.OptionEncoder
import org.apache.spark.sql.catalyst.encoders.{ExpressionEncoder, encoderFor}
import org.apache.spark.sql.catalyst.expressions.{
  GenericInternalRow, SpecializedGetters, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.DataType

/** Turns objects of one type into the rows that states store, and back. A struct becomes a row of
  * its own fields, any other value the one column of a row. Where the type is an option, a null
  * column is none. A decimal that does not fit its type is an error. For one thread at a time.
  *
  * @param encoder
  *   bound to its own columns
  */
private[keystate] final class ObjectCodec(encoder: ExpressionEncoder[Any]) {
  private val toRow = ExactDecimals.serializer(encoder)
  private val toObject = encoder.createDeserializer()
  private val schema = encoder.schema
  private val isStruct = encoder.isSerializedAsStructForTopLevel
  private val holder = new GenericInternalRow(1)
  private val nullRow =
    if (isStruct) null else UnsafeProjection.create(schema)(new GenericInternalRow(1)).copy()

  /** The value of a null column. */
  private val none: Any =
    if (encoder.encoder.isInstanceOf[OptionEncoder[_]]) None else null

  /** Whether values need no copy, see [[PlainValues]]. */
  val isPlain: Boolean = PlainValues.areAllOf(encoder.encoder)

  /** The row of a value; the same object at every call. Null for a null struct. */
  def row(value: Any): UnsafeRow =
    if (value == null) nullRow else toRow(value).asInstanceOf[UnsafeRow]

  def fromRow(row: InternalRow): Any =
    if (!isStruct && row.isNullAt(0)) none else toObject(row)

  /** The stored form of a value. */
  def encode(value: Any): Array[Byte] = {
    val encoded = row(value)
    if (encoded == null) StateRows.NullStruct else StateRows.encode(encoded)
  }

  private val stored = new UnsafeRow(schema.length)

  def decode(bytes: Array[Byte]): Any =
    if (StateRows.isNull(bytes)) null
    else {
      StateRows.point(stored, bytes)
      fromRow(stored)
    }

  /** The value as a read after the write would return it: nobody else can change it. */
  def copy(value: Any): Any = if (value == null || isPlain) value else decode(encode(value))

  /** The value as a field of a row or an element of an array: a copy, which may be kept. */
  def field(value: Any): Any = {
    val encoded = row(value)
    if (encoded == null) null
    else if (isStruct) encoded.copy()
    else encoded.copy().get(0, schema.head.dataType)
  }

  /** The object in a field of a row or an element of an array. */
  def fromField(container: SpecializedGetters, ordinal: Int): Any =
    if (container.isNullAt(ordinal)) none
    else if (isStruct) toObject(container.getStruct(ordinal, schema.length))
    else {
      holder.update(0, container.get(ordinal, schema.head.dataType))
      toObject(holder)
    }

  /** The value as field 0 of the result, which is the same object at every call. */
  def asField(value: Any): SpecializedGetters =
    if (isStruct) {
      holder.update(0, row(value))
      holder
    } else row(value)
}

private[keystate] object ObjectCodec {

  /** The type of a value as Python would declare it: nullable throughout. */
  def dataType(encoder: ExpressionEncoder[_]): DataType =
    (if (encoder.isSerializedAsStructForTopLevel) encoder.schema
     else encoder.schema.head.dataType).asNullable

  /** Bound to its own columns. Any of them may be null: a field may have been declared otherwise
    * when its value was stored. So the deserializer checks, and Spark's AssertNotNull refuses a
    * null for which the class has no place; without the check 0 would be read.
    */
  def bound(encoder: ExpressionEncoder[Any]): ExpressionEncoder[Any] =
    encoder.resolveAndBind(DataTypeUtils.toAttributes(encoder.schema.asNullable))

  def expression(encoder: Encoder[_]): ExpressionEncoder[Any] =
    encoderFor(encoder).asInstanceOf[ExpressionEncoder[Any]]
}
