package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, CollationAwareMurmur3Hash, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.execution.streaming.state._

import keystate.backend.{Change, Layout, StateFamily}
import keystate.checkpoint.VersionedStore
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.shim.{RowEncoders, StateKeys}

/** How one of Spark's own operators wants a column family stored. Relies on the encoders of Spark's
  * RocksDB provider to turn rows into bytes: they know what a scan may expect of each key encoding.
  */
private[keystate] final class SparkCodec(
    val spec: KeyStateEncoderSpec,
    val keys: RocksDBKeyStateEncoder,
    val values: RowEncoders.Values
) extends FamilyCodec {
  val layout: Layout = spec match {
    case _: NoPrefixKeyStateEncoderSpec => Layout.Point
    case _ => Layout.Ordered
  }

  /** Whether all entries with one prefix are in one key group. */
  val prefixInOneGroup: Boolean = !spec.isInstanceOf[RangeKeyScanStateEncoderSpec]

  val supportsRangeScan: Boolean = RowEncoders.supportsRangeScan(keys, spec)

  val supportsDeleteRange: Boolean = RowEncoders.supportsDeleteRange(keys, spec)

  // The hash by which Spark shuffles rows, as far as the key tells it: the hash of the key's
  // columns, without those that only order the entries of one key or tell them apart.
  private val hash = {
    val columns = spec.keySchema.indices
    val grouping = spec match {
      case _: NoPrefixKeyStateEncoderSpec => columns
      case PrefixKeyScanStateEncoderSpec(_, count) => columns.take(count)
      case RangeKeyScanStateEncoderSpec(_, ordering) =>
        val rest = columns.diff(ordering)
        if (rest.isEmpty) columns else rest
      case _ => StateKeys.withoutTime(spec, columns)
    }
    val references = grouping.map { i =>
      val column = spec.keySchema(i)
      BoundReference(i, column.dataType, column.nullable)
    }
    UnsafeProjection.create(Seq(new CollationAwareMurmur3Hash(references)))
  }

  /** The key group of a key or prefix: in keys with prefixes the grouping columns come first. */
  def group(key: UnsafeRow, maxParallelism: Int): Int =
    KeyGroups.groupOf(hash(key).getInt(0), maxParallelism)

  override def open(family: StateFamily, versions: VersionedStore): ColumnFamily =
    new SparkColumnFamily(
      this,
      family.id,
      versions.backend,
      versions.manifest.partitioning.groups,
      versions.maxParallelism
    )

  override def records(change: Change): Seq[(RecordType.Value, UnsafeRow, UnsafeRow)] = {
    val key = keys.decodeKey(change.key).copy()
    if (change.value == null) Seq((RecordType.DELETE_RECORD, key, null))
    else if (!values.supportsMultipleValuesPerKey)
      Seq((RecordType.PUT_RECORD, key, values.decodeValue(change.value).copy()))
    else
      values.decodeValues(change.value).map(_.copy()).toSeq.zipWithIndex.map {
        case (value, 0) => (RecordType.PUT_RECORD, key, value)
        case (value, _) => (RecordType.MERGE_RECORD, key, value)
      }
  }
}
