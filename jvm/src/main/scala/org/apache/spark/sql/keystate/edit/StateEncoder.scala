package org.apache.spark.sql.keystate.edit

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, GenericInternalRow, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.unsafe.Platform

import keystate.TimeDomain
import keystate.backend.{Change, GroupedKey, StateFamily}
import keystate.errors.KeystateErrors
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.encoding.{OrderedKeyCodec, StateRows, WindowNamespace}
import org.apache.spark.sql.keystate.operator.{KeyReader, Routing}
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec, SystemColumnFamilies}
import org.apache.spark.sql.keystate.state.{Timer, TimerKeys}

/** Turns the rows of a DataFrame into entries of a state. The first column is the key, a struct;
  * `columns` lists the others, by the state's kind. For one task.
  *
  * Each element of a list becomes its own entry, ordered by its position: [[SortedEntries]] makes
  * chunks of these entries once they are sorted.
  *
  * @param state
  *   None: the rows are timers
  * @param family
  *   the state's, in the new store
  * @param keySchema
  *   the key's columns; only columns that are declared nullable may be null
  */
private[keystate] final class StateEncoder(
    state: Option[StateSpec],
    family: StateFamily,
    keySchema: StructType,
    maxParallelism: Int
) {
  private val keyAttributes: Seq[Attribute] = DataTypeUtils.toAttributes(keySchema)
  private val keys =
    new KeyReader(Routing.normalized(keyAttributes), keyAttributes, maxParallelism)
  private val rowSchema =
    StructType(StructField("key", keySchema) +: StateEncoder.columns(state, family.name).fields)
  private val nulls = new NullChecks(rowSchema)
  private val encode: (Array[Byte], InternalRow) => (Array[Byte], Array[Byte]) = state match {
    case None => timer
    case Some(spec) =>
      spec.kind match {
        case StateKind.Value => value
        case StateKind.List => element
        case StateKind.Map | StateKind.SortedMap => mapEntry
      }
  }

  def apply(row: InternalRow): Change = {
    if (row.isNullAt(0)) refuse(row, "its key is null")
    nulls.in(row).foreach(where => refuse(row, NullChecks.told(where)))
    val struct = row.getStruct(0, keySchema.length)
    val (key, bytes) = encode(bytesOf(keys.key(struct)), row)
    Change(family.id, keys.group(struct), key, bytes)
  }

  private def bytesOf(row: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](row.getSizeInBytes)
    row.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong)
    bytes
  }

  private def value(key: Array[Byte], row: InternalRow) = {
    if (row.isNullAt(1)) refuse(row, "its value is null: a key without a value has no row")
    (key, values(row, 1))
  }

  private def element(key: Array[Byte], row: InternalRow) = {
    if (row.isNullAt(1)) refuse(row, "its position is null")
    if (row.isNullAt(2)) refuse(row, "its element is null")
    val position = ByteBuffer.allocate(8).putLong(row.getLong(1) ^ Long.MinValue).array()
    holder.update(0, new GenericArrayData(Array(row.get(2, spec.valueType))))
    (GroupedKey.entry(key, position), StateRows.encode(projection(holder)))
  }

  private def mapEntry(key: Array[Byte], row: InternalRow) = {
    if (row.isNullAt(1)) refuse(row, "its map key is null")
    (GroupedKey.entry(key, userKeys.encode(row, 1)), values.orNull(row, 2))
  }

  private def timer(key: Array[Byte], row: InternalRow) = {
    if ((1 until rowSchema.length).exists(row.isNullAt))
      refuse(row, "its time, its domain or its window is null")
    val domain = row.getUTF8String(1).toString match {
      case "EVENT_TIME" => TimeDomain.EVENT_TIME
      case "PROCESSING_TIME" => TimeDomain.PROCESSING_TIME
      case other => refuse(row, s"'$other' is not EVENT_TIME or PROCESSING_TIME")
    }
    val namespace =
      if (rowSchema.length == 3) Timer.NoNamespace
      else {
        val window = row.getStruct(3, 2)
        WindowNamespace(window.getLong(0), window.getLong(1))
      }
    (TimerKeys.of(family).get.entry(domain, row.getLong(2), key, namespace), TimerKeys.Present)
  }

  // Not used for timers:
  private lazy val spec = state.get
  private lazy val projection = UnsafeProjection.create(spec.rowSchema)
  private lazy val userKeys = OrderedKeyCodec(spec.keyType.get, spec.order)
  private lazy val values = new ValueEncoder(spec)
  private lazy val holder = new GenericInternalRow(1)

  private def refuse(row: InternalRow, problem: String): Nothing =
    throw KeystateErrors.stateRow(
      family.name,
      s"${CatalystTypeConverters.convertToScala(row, rowSchema)}",
      problem
    )
}

private[keystate] object StateEncoder {

  /** The columns after the key; without a state, those of timers. */
  def columns(state: Option[StateSpec], name: String): StructType = state match {
    case None =>
      val timers =
        new StructType().add("time_domain", "string").add("expiration_timestamp_ms", "long")
      if (name == SystemColumnFamilies.TimersName) timers
      else timers.add("window", WindowNamespace.Columns)
    case Some(spec) =>
      spec.kind match {
        case StateKind.List =>
          new StructType().add("position", "long").add("list_element", spec.valueType)
        case StateKind.Map | StateKind.SortedMap =>
          new StructType()
            .add("user_map_key", spec.keyType.get)
            .add("user_map_value", spec.valueType)
        case StateKind.Value => new StructType().add("value", spec.valueType)
      }
  }
}

/** Turns the rows of a DataFrame into entries of a broadcast state. They have no key. For one task.
  *
  * @param family
  *   the id of the state's family in the new store
  */
private[keystate] final class BroadcastEncoder(state: StateSpec, family: Int, maxParallelism: Int) {
  private val keys = OrderedKeyCodec(state.keyType.get, state.order)
  private val values = new ValueEncoder(state)
  private val group = KeyGroups.operatorGroup(maxParallelism)

  def apply(row: InternalRow): Change = {
    if (row.isNullAt(0)) {
      val shown =
        CatalystTypeConverters.convertToScala(row, StateEncoder.columns(Some(state), state.name))
      throw KeystateErrors.stateRow(state.name, s"$shown", "its map key is null")
    }
    Change(family, group, keys.encode(row, 0), values.orNull(row, 1))
  }
}

/** Encodes the values of a state. */
private final class ValueEncoder(state: StateSpec) {
  private val projection = UnsafeProjection.create(state.rowSchema)
  private val holder = new GenericInternalRow(1)

  def apply(row: InternalRow, ordinal: Int): Array[Byte] = StateRows.encode(
    if (state.isStruct) projection(row.getStruct(ordinal, state.rowSchema.length))
    else {
      holder.update(0, row.get(ordinal, state.valueType))
      projection(holder)
    }
  )

  /** A map can have null as a value. */
  def orNull(row: InternalRow, ordinal: Int): Array[Byte] =
    if (state.isStruct && row.isNullAt(ordinal)) StateRows.NullStruct else apply(row, ordinal)
}
