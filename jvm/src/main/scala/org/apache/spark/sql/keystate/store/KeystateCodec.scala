package org.apache.spark.sql.keystate.store

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, GenericInternalRow, Murmur3Hash, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.execution.streaming.state.RecordType
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

import keystate.backend.{Change, Entry, GroupedKey, Layout, StateFamily}
import keystate.checkpoint.VersionedStore
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.encoding.{OrderedKeyCodec, StateRows, StoredOrder}
import org.apache.spark.sql.keystate.spec.{StateSpec, StoredTypes}
import org.apache.spark.sql.keystate.state.ValueUpgrade

/** How a state of one of Keystate's operators looks to Spark's `statestore` reader. The key of a
  * value is the grouping key. The key of a map entry is a row of two rows: the grouping key and the
  * user key. A list is one entry, with the list's elements as the entry's values.
  */
private[keystate] final class KeystateCodec(
    val family: StateFamily,
    keySchema: StructType,
    valueSchema: StructType
) extends FamilyCodec {
  val kind: String = family.properties(KeystateCodec.Kind)
  val isList: Boolean = kind == "list"
  val isMap: Boolean = family.layout == Layout.Grouped && !isList

  private val groupingSchema =
    if (isMap) keySchema.head.dataType.asInstanceOf[StructType] else keySchema
  private val hash = UnsafeProjection.create(Seq(new Murmur3Hash(groupingSchema.indices.map { i =>
    BoundReference(i, groupingSchema(i).dataType, groupingSchema(i).nullable)
  })))

  // Only for a state whose type has changed.
  private val upgrade = Option(StateSpec.of(family)).filter(_.schemas.nonEmpty).map { state =>
    new ValueUpgrade(state)
  }

  private def current(value: Array[Byte]) = upgrade.fold(value)(_(value))

  // Only for a map.
  private lazy val userKeys = OrderedKeyCodec(
    StoredTypes.parse(family.properties("keyType"), family.name).asNullable,
    KeystateCodec.order(family)
  )
  private lazy val compositeKey = UnsafeProjection.create(keySchema)

  // Only for a list.
  private lazy val elementType =
    StoredTypes.parse(family.properties("valueType"), family.name)
  private lazy val elementRow = UnsafeProjection.create(valueSchema)

  /** The grouping key in a key, or key prefix, from Spark. */
  def groupingKey(key: UnsafeRow): UnsafeRow =
    if (isMap) key.getStruct(0, groupingSchema.length) else key

  def group(groupingKey: UnsafeRow, maxParallelism: Int): Int =
    KeyGroups.groupOf(hash(groupingKey).getInt(0), maxParallelism)

  /** The stored key of a value, or of an entry of a map. */
  def entryKey(key: UnsafeRow): Array[Byte] = {
    val grouping = groupingKey(key).getBytes
    if (isMap) GroupedKey.entry(grouping, userKeys.encode(key.getStruct(1, 1), 0)) else grouping
  }

  def keyRow(entryKey: Array[Byte]): UnsafeRow = {
    val grouping = groupingRow(entryKey)
    if (isMap) compositeKey(InternalRow(grouping, userKeyRow(entryKey))) else grouping
  }

  /** The grouping key in the stored key of an entry. */
  def groupingRow(entryKey: Array[Byte]): UnsafeRow = {
    val grouping = new UnsafeRow(groupingSchema.length)
    if (family.layout == Layout.Point) grouping.pointTo(entryKey, entryKey.length)
    else {
      val end = GroupedKey.userKeyOffset(entryKey)
      grouping.pointTo(entryKey, Platform.BYTE_ARRAY_OFFSET + 4L, end - 4)
    }
    grouping
  }

  /** The user key in the stored key of an entry of a map, as a row of one column. */
  def userKeyRow(entryKey: Array[Byte]): InternalRow = {
    val userKey = new GenericInternalRow(1)
    userKeys.decode(entryKey, GroupedKey.userKeyOffset(entryKey), userKey, 0)
    userKey
  }

  def valueRow(value: Array[Byte]): UnsafeRow =
    if (StateRows.isNull(value)) null
    else {
      val row = new UnsafeRow(valueSchema.length)
      StateRows.point(row, current(value))
      row
    }

  /** The number of elements in a chunk of a list. */
  def length(chunk: Array[Byte]): Int = array(chunk).numElements()

  private def array(chunk: Array[Byte]) = {
    val row = new UnsafeRow(1)
    StateRows.point(row, chunk)
    row.getArray(0)
  }

  /** The elements in a chunk of a list. */
  def elements(chunk: Array[Byte]): Iterator[UnsafeRow] = {
    val array = this.array(current(chunk))
    (0 until array.numElements()).iterator.map { i =>
      elementType match {
        case struct: StructType if array.isNullAt(i) =>
          elementRow(new GenericInternalRow(struct.length))
        case struct: StructType => elementRow(array.getStruct(i, struct.length))
        case other => elementRow(InternalRow(array.get(i, other)))
      }
    }
  }

  override def open(family: StateFamily, versions: VersionedStore): ColumnFamily =
    new KeystateColumnFamily(
      this,
      versions.backend,
      versions.manifest.partitioning.groups,
      versions.maxParallelism
    )

  override def records(
      stored: StateFamily,
      change: Change
  ): Seq[(RecordType.Value, UnsafeRow, UnsafeRow)] = {
    val key = keyRow(change.key).copy()
    if (change.value == null) Seq((RecordType.DELETE_RECORD, key, null))
    else if (isList)
      elements(change.value).map(element => (RecordType.MERGE_RECORD, key, element.copy())).toSeq
    else {
      val value = valueRow(change.value)
      Seq((RecordType.PUT_RECORD, key, if (value == null) null else value.copy()))
    }
  }
}

private[keystate] object KeystateCodec {
  final val Kind = "kind"

  private val kinds = Set("value", "list", "map", "sorted_map")

  /** Whether the family belongs to one of Keystate's operators, and not to one of Spark's. */
  def owns(family: StateFamily): Boolean = family.properties.get(Kind).exists(kinds.contains)

  private def order(family: StateFamily): StoredOrder =
    family.properties.get("order").fold[StoredOrder](StoredOrder.Natural)(StoredOrder.byName)

  /** The first of each key's chunks of lists. Its number is not 0 if chunk 0 has expired. */
  def firstChunks(chunks: Iterator[Entry]): Iterator[Entry] = {
    var last = Array.emptyByteArray
    chunks.filter { chunk =>
      val length = GroupedKey.userKeyOffset(chunk.key)
      val isNext = !Arrays.equals(last, 0, last.length, chunk.key, 0, length)
      if (isNext) last = Arrays.copyOf(chunk.key, length)
      isNext
    }
  }
}
