package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, CollationAwareMurmur3Hash, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.execution.streaming.state._

import keystate.backend.{Change, Layout, StateFamily}
import keystate.checkpoint.VersionedStore
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.encoding.{PrefixKeyOrder, SparkKeys}
import org.apache.spark.sql.keystate.shim.{RowEncoders, StateKeys}

/** The stored form that one of Spark's own operators wants for a column family. Relies on the
  * encoders of Spark's RocksDB provider to turn rows into bytes: they know the order that scans
  * expect of each key encoding.
  *
  * @param name
  *   the name of the family, or of the store with only one family
  * @param encoder
  *   Spark's encoder of keys
  * @param order
  *   the order of the keys, if they can have one
  */
private[keystate] final class SparkCodec(
    name: String,
    val spec: KeyStateEncoderSpec,
    encoder: RocksDBKeyStateEncoder,
    order: Option[PrefixKeyOrder],
    val values: RowEncoders.Values
) extends FamilyCodec {
  import SparkCodec._

  val layout: Layout = spec match {
    case _: NoPrefixKeyStateEncoderSpec => Layout.Point
    case _ => Layout.Ordered
  }

  /** Whether all entries with one prefix are in one key group. */
  val prefixInOneGroup: Boolean = !spec.isInstanceOf[RangeKeyScanStateEncoderSpec]

  val supportsRangeScan: Boolean = RowEncoders.supportsRangeScan(encoder, spec)

  val supportsDeleteRange: Boolean = RowEncoders.supportsDeleteRange(encoder, spec)

  private val keys = new SparkKeys(encoder, order)

  /** The key group of a key or prefix: in keys with prefixes the grouping columns come first. */
  def groupOf(maxParallelism: Int): UnsafeRow => Int =
    key => KeyGroups.groupOf(hash(key).getInt(0), maxParallelism)

  // The hash by which Spark shuffles rows, as far as the key determines it: the hash of the key's
  // columns, without those that only order or distinguish the entries of one key. So the numbered
  // values of a join's key are in the order in which the join removes them.
  private lazy val hash = {
    val columns = spec.keySchema.indices
    hashOf(spec match {
      case NoPrefixKeyStateEncoderSpec(key)
          if name.endsWith(ValuesOfJoin) && key.length > 1 && key.last.name == "index" =>
        columns.dropRight(1)
      case _: NoPrefixKeyStateEncoderSpec => columns
      case PrefixKeyScanStateEncoderSpec(_, count) => columns.take(count)
      case RangeKeyScanStateEncoderSpec(_, ordering) =>
        val rest = columns.diff(ordering)
        if (rest.isEmpty) columns else rest
      case _ => StateKeys.withoutTime(spec, columns)
    })
  }

  private def hashOf(columns: Seq[Int]): UnsafeProjection = {
    val references = columns.map { i =>
      val column = spec.keySchema(i)
      BoundReference(i, column.dataType, column.nullable)
    }
    UnsafeProjection.create(Seq(new CollationAwareMurmur3Hash(references)))
  }

  override def open(family: StateFamily, versions: VersionedStore): ColumnFamily =
    new SparkColumnFamily(
      this,
      keys,
      family.id,
      versions.backend,
      versions.manifest.partitioning.groups,
      groupOf(versions.maxParallelism)
    )

  override def records(
      stored: StateFamily,
      change: Change
  ): Seq[(RecordType.Value, UnsafeRow, UnsafeRow)] = {
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

private object SparkCodec {

  /** The end of the names of stores, or families, in which a stream-stream join has the values of a
    * key, each with a number. Relies on `SymmetricHashJoinStateManager.KeyWithIndexToValueType`,
    * and on the number being the last column.
    */
  private final val ValuesOfJoin = "-keyWithIndexToValue"
}
