package org.apache.spark.sql.keystate.checkpoint

import java.util.Base64

import org.json4s.JsonDSL._
import org.json4s.{JObject, JValue}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, Murmur3Hash, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

import keystate.backend.{Change, Expiry, GroupedKey, StateFamily, StateValue}
import keystate.errors.KeystateErrors
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import keystate.version.Manifest
import org.apache.spark.sql.keystate.encoding.{ArrowStreams, OrderedKeyCodec}
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec, StoredTypes}
import org.apache.spark.sql.keystate.store.KeystateCodec

/** Reads one key's value from a state after a committed micro-batch, in the driver and without a
  * Spark job. It reads only the part of a run that can have the key.
  *
  * @param operator
  *   its number; None if only one operator has such a state
  * @param state
  *   its name; None if there is only one
  * @param version
  *   the version of the state, which is one more than its micro-batch; None for the last one
  */
private[keystate] final class StateLookup(
    checkpoint: QueryCheckpoint,
    operator: Option[Long],
    state: Option[String],
    version: Option[Long]
) {
  private val batch = checkpoint.batch(version.fold(checkpoint.lastBatch)(_ - 1))
  private val store = StoreLocation.DefaultStore

  private val (id, family, keySchema) = {
    val all = for {
      operator <- checkpoint.operators if checkpoint.record(operator).isDefined
      families = checkpoint.manifest(batch, operator, 0, store).families
      family <- families if KeystateCodec.owns(family)
    } yield (operator, family, families)
    val fitting = all.filter { case (of, family, _) =>
      operator.forall(_ == of) && state.forall(_ == family.name)
    }
    fitting match {
      case Seq((of, family, families)) =>
        (of, family, checkpoint.keySchema(of, families))
      case found =>
        val there = all.map { case (of, family, _) => s"operator $of: ${family.name}" }
        throw KeystateErrors.noSuchState(checkpoint.location, state, operator, found.size, there)
    }
  }
  private val stored = new StoredState(family, keySchema)

  /** The state's kind and types. Python parses the types, so they are checked to be some. */
  def describe: JValue = {
    val keyJson = StoredTypes.parse(keySchema.json, family.name).json
    ("operator" -> id) ~ ("batch" -> batch.number) ~ ("key" -> keyJson) merge stored.describe
  }

  /** The value; or the elements of a list, or the entries of a map with their keys, in their order:
    * an Arrow stream in Base64, with the column `value`, for a map after the column `key`. No rows
    * where there is nothing, or it has expired.
    *
    * @param key
    *   a row with the key's columns, as an Arrow stream in Base64, as are the next two
    * @param start
    *   a map's key, or the first of a range; empty if from its first entry on
    * @param end
    *   the first key after a range; empty if to the last entry
    * @param isRange
    *   whether all entries of the range are wanted, and not only that of `start`
    */
  def find(key: String, start: String, end: String, isRange: Boolean): String = {
    val grouping = StoredState.row(key, keySchema)
    val n = checkpoint.partitions(batch, id)
    val of0 = checkpoint.manifest(batch, id, 0, store)
    val group = stored.group(grouping, of0.partitioning.maxParallelism)
    val partition = KeyGroups.subtaskOf(group, n, of0.partitioning.maxParallelism)
    val manifest = if (partition == 0) of0 else checkpoint.manifest(batch, id, partition, store)
    val (from, until) = stored.range(grouping.getBytes, start, end, isRange)
    val entries = checkpoint
      .reader(id, partition, store)
      .find(manifest, family, group, from, until)
    stored.stream(stored.unexpired(manifest, entries))
  }
}

/** Reads one key's value from a state and renders it as JSON.
  *
  * @param keySchema
  *   the key's columns
  */
private[keystate] final class StoredState(val family: StateFamily, keySchema: StructType) {
  private val spec = StateSpec.of(family)
  private val isMap = spec.keyType.isDefined

  /** The state's name, its kind and its types. */
  def describe: JObject =
    ("state" -> spec.name) ~ ("kind" -> spec.kindName) ~
      ("key_type" -> spec.keyType.map(_.json)) ~ ("value_type" -> spec.valueType.json) ~
      ("order" -> spec.order.name)

  def group(key: UnsafeRow, maxParallelism: Int): Int = codec.group(key, maxParallelism)

  /** The entries that have not expired by the clock of their version. */
  def unexpired(manifest: Manifest, entries: Vector[Change]): Vector[Change] = {
    val there = manifest.families.find(_.id == family.id).getOrElse(family)
    val isExpired = Expiry.inVersion(there.properties)
    entries.filterNot(change => isExpired(change.value))
  }

  /** The content of these entries: an Arrow stream in Base64. */
  def stream(entries: Vector[Change]): String = {
    val rows = entries.flatMap { change =>
      if (codec.isList) codec.elements(change.value).map(value(_).copy())
      else if (codec.isMap) {
        // The codec uses its row again.
        val userKey = codec.keyRow(change.key).copy().getStruct(1, 1).get(0, spec.keyType.get)
        Iterator(InternalRow(userKey, value(codec.valueRow(change.value)).get(0, spec.valueType)))
      } else Iterator(value(codec.valueRow(change.value)).copy())
    }
    val stream = StoredState.streams.write(schema) { columns =>
      rows.foreach { row =>
        columns.zipWithIndex.foreach { case (column, i) => column.write(row, i) }
      }
      rows.size
    }
    Base64.getEncoder.encodeToString(stream)
  }

  /** When each of the rows that `stream` has was last used, in ms since the epoch. None where the
    * state has no time to live.
    */
  def times(entries: Vector[Change]): Vector[Option[Long]] = entries.flatMap { change =>
    val time = Some(StateValue.timestamp(change.value)).filter(_ != StateValue.NoTimestamp)
    if (codec.isList) codec.elements(change.value).map(_ => time) else Iterator(time)
  }

  lazy val codec = new KeystateCodec(family, entrySchema, rowSchema)

  private val schema: StructType = {
    val value = new StructType().add("value", spec.valueType)
    spec.keyType.fold(value)(new StructType().add("key", _).add(value.head))
  }

  /** The schema of a stored entry's key. */
  private def entrySchema: StructType = spec.keyType.fold(keySchema) { userKey =>
    new StructType().add("key", keySchema).add("userKey", new StructType().add("key", userKey))
  }

  /** The schema of a stored value, or of an element of a list. */
  def rowSchema: StructType = spec.valueType match {
    case struct: StructType => struct
    case other => new StructType().add("value", other)
  }

  /** A row of one column, from a row as it is stored. */
  private def value(stored: UnsafeRow): InternalRow =
    if (stored == null) InternalRow(null)
    else
      spec.valueType match {
        case _: StructType => InternalRow(stored.copy())
        case _ => stored.copy()
      }

  /** The range of entry keys from one (inclusive) to another (exclusive): see `StateLookup.find`.
    */
  def range(
      key: Array[Byte],
      start: String,
      end: String,
      isRange: Boolean
  ): (Array[Byte], Array[Byte]) = {
    def entry(userKey: String) = GroupedKey.entry(key, encodedUserKey(userKey))
    if (spec.kind == StateKind.Value) (key, StoredState.after(key))
    else {
      val all = GroupedKey.prefix(key)
      val from = if (start.isEmpty) all else entry(start)
      val until =
        if (isMap && !isRange) StoredState.after(from)
        else if (end.isEmpty) StoredState.afterAll(all)
        else entry(end)
      (from, until)
    }
  }

  private def encodedUserKey(stream: String): Array[Byte] = {
    val schema = new StructType().add("key", spec.keyType.get)
    OrderedKeyCodec(spec.keyType.get, spec.order).encode(StoredState.row(stream, schema), 0)
  }
}

private[checkpoint] object StoredState {
  private val streams = new ArrowStreams("UTC", largeVarTypes = false)

  /** The row in an Arrow stream, with all NaNs and all zeros normalised. That reads elements of
    * arrays without checking for nulls, which works only on rows that Spark has copied out of
    * Arrow's columns.
    */
  def row(stream: String, schema: StructType): UnsafeRow = {
    val references = schema.zipWithIndex.map { case (field, i) =>
      NormalizeFloatingNumbers.normalize(BoundReference(i, field.dataType, nullable = true))
    }
    streams.readVectors(Base64.getDecoder.decode(stream)) { root =>
      val columns =
        schema.indices.map[ColumnVector](i => new ArrowColumnVector(root.getVector(i)))
      val copied =
        UnsafeProjection.create(schema)(new ColumnarBatch(columns.toArray, 1).getRow(0))
      UnsafeProjection.create(references)(copied).copy()
    }
  }

  /** The murmur3 hash of a key, which determines its group. */
  def hash(key: UnsafeRow, schema: StructType): Int = UnsafeProjection
    .create(Seq(new Murmur3Hash(schema.indices.map { i =>
      BoundReference(i, schema(i).dataType, schema(i).nullable)
    })))(key)
    .getInt(0)

  /** The least bytes after these. */
  private def after(bytes: Array[Byte]): Array[Byte] = bytes :+ 0.toByte

  /** The smallest bytes that are greater than all with this prefix. The prefix is not 0xFF
    * throughout, because it begins with a length.
    */
  private def afterAll(prefix: Array[Byte]): Array[Byte] = {
    val bytes = prefix.reverse.dropWhile(_ == -1).reverse
    bytes(bytes.length - 1) = (bytes.last + 1).toByte
    bytes
  }
}
