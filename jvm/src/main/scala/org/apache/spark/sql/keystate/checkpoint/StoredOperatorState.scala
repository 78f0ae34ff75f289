package org.apache.spark.sql.keystate.checkpoint

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.json4s.jackson.JsonMethods.parse
import org.json4s.{JArray, JNull, JValue}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.types.StructType

import keystate.backend.{Change, StateFamily}
import keystate.checkpoint.OperatorState
import keystate.files.StoreLocation
import keystate.version.Manifest
import org.apache.spark.sql.keystate.encoding.{OrderedKeyCodec, StateRows}
import org.apache.spark.sql.keystate.spec.{StateSpec, StoredTypes}
import org.apache.spark.sql.keystate.state.ValueUpgrade

/** The broadcast state and operator state of an operator's subtasks after a micro-batch, read by
  * the driver.
  */
private[keystate] final class StoredOperatorState(
    checkpoint: QueryCheckpoint,
    operator: Long,
    number: Long
) {
  private val batch = checkpoint.batch(number)

  /** The entries of a broadcast state, as the first subtask has them: all have the same. */
  def broadcast(name: String): (StructType, Seq[InternalRow]) = {
    val manifest = this.manifest(0)
    val family = manifest.families.find(_.name == name).get
    val spec = StateSpec.of(family)
    val schema = new StructType()
      .add("user_map_key", spec.keyType.get)
      .add("user_map_value", spec.valueType)
    val codec = OrderedKeyCodec(spec.keyType.get, spec.order)
    val upgrade = Option.when(spec.schemas.nonEmpty)(new ValueUpgrade(spec))
    val rows = entries(manifest, family).map { entry =>
      val key = new GenericInternalRow(1)
      codec.decode(entry.key, 0, key, 0)
      InternalRow(
        key.get(0, spec.keyType.get),
        value(spec, upgrade.fold(entry.value)(_(entry.value)))
      )
    }
    (schema, rows)
  }

  private def value(spec: StateSpec, bytes: Array[Byte]): Any =
    if (StateRows.isNull(bytes)) null
    else {
      val row = new UnsafeRow(spec.rowSchema.length)
      StateRows.point(row, bytes)
      if (spec.isStruct) row else row.get(0, spec.valueType)
    }

  /** The operator state of each subtask, in the format of [[OperatorState]]; null for a subtask
    * without any.
    */
  def operatorState: JValue = JArray((0 until batch.partitions).toList.map { partition =>
    val manifest = this.manifest(partition)
    val json = for {
      family <- manifest.families.find(_.name == OperatorState.FamilyName)
      entry <- entries(manifest, family).find(_.key.sameElements(OperatorState.StateKey))
    } yield StoredTypes.reading(family.name)(parse(new String(entry.value, UTF_8)))
    json.getOrElse(JNull)
  })

  private def manifest(partition: Int) =
    checkpoint.manifest(batch, operator, partition, StoreLocation.DefaultStore)

  private def entries(manifest: Manifest, family: StateFamily): Seq[Change] = {
    val reader =
      checkpoint.reader(operator, manifest.partitioning.partition, StoreLocation.DefaultStore)
    Using.resource(reader.subtaskEntries(manifest, family))(_.toVector)
  }
}
