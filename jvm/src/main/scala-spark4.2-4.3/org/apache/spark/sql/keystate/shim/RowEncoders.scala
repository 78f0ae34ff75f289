package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** The differences in the encoders of Spark's RocksDB provider, which store the state of Spark's
  * own operators, from 4.2 on.
  */
private[keystate] object RowEncoders {
  type Values = RocksDBValueStateEncoder

  /** Encodes values. The values of one key follow each other without a delimiter, because each
    * begins with its length.
    */
  def ofValues(rows: RocksDBDataEncoder, schema: StructType, multiple: Boolean): Values =
    RocksDBStateEncoder.getValueEncoder(rows, schema, multiple, delimiterSize = 0)

  def supportsRangeScan(keys: RocksDBKeyStateEncoder, spec: KeyStateEncoderSpec): Boolean =
    keys.supportsRangeScan

  def supportsDeleteRange(keys: RocksDBKeyStateEncoder, spec: KeyStateEncoderSpec): Boolean =
    keys.supportsDeleteRange
}
