package org.apache.spark.sql.keystate.shim

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

/** The differences in the encoders of Spark 4.1's RocksDB provider, which store the state of
  * Spark's own operators.
  */
private[keystate] object RowEncoders {

  /** Encodes values. The values of one key follow each other without a delimiter, because each
    * begins with its length. Spark 4.1 itself always expects a delimiter.
    */
  def ofValues(rows: RocksDBDataEncoder, schema: StructType, multiple: Boolean): Values =
    new Values(RocksDBStateEncoder.getValueEncoder(rows, schema, multiple))

  def supportsRangeScan(keys: RocksDBKeyStateEncoder, spec: KeyStateEncoderSpec): Boolean =
    spec.isInstanceOf[RangeKeyScanStateEncoderSpec]

  def supportsDeleteRange(keys: RocksDBKeyStateEncoder, spec: KeyStateEncoderSpec): Boolean =
    supportsRangeScan(keys, spec)

  /** Relies on Spark's form of one of several values: its length, four bytes in the machine's
    * order, and its row.
    */
  final class Values(sparks: RocksDBValueStateEncoder) {
    def supportsMultipleValuesPerKey: Boolean = sparks.supportsMultipleValuesPerKey
    def encodeValue(row: UnsafeRow): Array[Byte] = sparks.encodeValue(row)
    def decodeValue(value: Array[Byte]): UnsafeRow = sparks.decodeValue(value)

    def decodeValues(values: Array[Byte]): Iterator[UnsafeRow] =
      if (values == null) Iterator.empty
      else
        new Iterator[UnsafeRow] {
          private var at = 0

          override def hasNext: Boolean = at < values.length

          override def next(): UnsafeRow = {
            val length = Platform.getInt(values, Platform.BYTE_ARRAY_OFFSET + at)
            val end = at + Integer.BYTES + length
            val value = sparks.decodeValues(Arrays.copyOfRange(values, at, end)).next()
            at = end
            value
          }
        }
  }
}
