package org.apache.spark.sql.keystate.spec

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import keystate.backend.{Layout, StateFamily, TimeToLive}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.spec.Protocol.StateFields._
import org.apache.spark.sql.keystate.spec.Protocol.TtlFields

/** The form of a state for each key. Reducing, aggregating and folding state store an accumulator
  * as value.
  */
private[keystate] sealed abstract class StateKind(val name: String, val layout: Layout)

private[keystate] object StateKind {
  case object Value extends StateKind("value", Layout.Point)
  case object List extends StateKind("list", Layout.Grouped)
  case object Map extends StateKind("map", Layout.Grouped)
  case object SortedMap extends StateKind("sorted_map", Layout.Grouped)

  val all: Seq[StateKind] = Seq(Value, List, Map, SortedMap)

  def byName(name: String): StateKind = all
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"unknown state kind '$name'"))
}

/** One state that a function declared.
  *
  * @param descriptor
  *   the kind in the user's declaration, for messages: `reducing` where `kind` is `value`
  * @param valueType
  *   the type of the value, of a list's element, or of a map's value
  * @param keyType
  *   the type of a map's key; None for other states
  * @param order
  *   the order of a sorted map's keys
  * @param schemas
  *   if `valueType` has changed: all value types that entries may be stored with, by schema id, the
  *   newest last; otherwise empty
  * @param isBroadcast
  *   whether it is a map without a key around it, which all subtasks have
  * @param maxEntries
  *   the maximum number of entries in all partitions
  * @param aggregates
  *   the aggregates whose buffers it has; None for a state of a function
  * @param pattern
  *   the pattern whose partial matches it has
  */
private[keystate] final case class StateSpec(
    name: String,
    kind: StateKind,
    descriptor: String,
    valueType: DataType,
    keyType: Option[DataType],
    order: StoredOrder,
    ttl: Option[TimeToLive] = None,
    schemas: Seq[DataType] = Nil,
    isBroadcast: Boolean = false,
    maxEntries: Option[Long] = None,
    aggregates: Option[AggregateRecord] = None,
    pattern: Option[PatternRecord] = None
) {
  if (StateSpec.isReserved(name)) throw KeystateErrors.reservedName(name)

  /** The kind by the name that checkpoints have for it. */
  val kindName: String = if (isBroadcast) StateSpec.Broadcast else kind.name

  val layout: Layout = if (isBroadcast) Layout.Ordered else kind.layout

  val rowSchema: StructType = StateSpec.rowSchema(kind, valueType)

  /** Whether the stored row is the value itself, and not a row around it. */
  val isStruct: Boolean = kind != StateKind.List && valueType.isInstanceOf[StructType]

  def describe: String = {
    val value = SchemaEvolution.bare(valueType).sql
    keyType.fold(s"$descriptor<$value>")(key => s"$descriptor<${key.sql}, $value>")
  }

  /** The properties that the checkpoint keeps of this state. */
  def properties: Map[String, String] = Map(
    "kind" -> kindName,
    "valueType" -> SchemaEvolution.bare(valueType).json,
    "order" -> order.name
  ) ++ keyType.map("keyType" -> _.asNullable.json) ++
    Option.when(schemas.nonEmpty)("schemas" -> SchemaEvolution.toJson(schemas)) ++
    aggregates.map(StateSpec.Aggregates -> _.toJson) ++
    pattern.map(StateSpec.Pattern -> _.toJson)
}

private[keystate] object StateSpec {

  /** The kind of broadcast state in checkpoints and in what Python declares. */
  private final val Broadcast = "broadcast"

  /** The property with what is recorded of aggregates. */
  private final val Aggregates = "aggregates"

  /** The property with what is recorded of a pattern. */
  private final val Pattern = "pattern"

  private implicit val formats: Formats = DefaultFormats

  /** The row in a stored value: a struct's own fields, or else one column named `value`. For a list
    * that column is an array.
    */
  def rowSchema(kind: StateKind, valueType: DataType): StructType = (kind, valueType) match {
    case (StateKind.List, element) => new StructType().add("value", ArrayType(element))
    case (_, struct: StructType) => struct
    case (_, other) => new StructType().add("value", other)
  }

  /** Whether only Spark's or Keystate's own families may have this name. */
  private def isReserved(name: String): Boolean =
    name.isEmpty || name != name.trim || name == "default" || name.startsWith("$")

  /** Whether a family is a state that a function declared. */
  def isOne(family: StateFamily): Boolean =
    isBroadcast(family) ||
      family.properties.get("kind").exists(kind => StateKind.all.exists(_.name == kind))

  /** Whether a family is a broadcast state. */
  def isBroadcast(family: StateFamily): Boolean =
    family.properties.get("kind").contains(Broadcast)

  /** Whether a family has the buffers of aggregates. */
  def hasAggregates(family: StateFamily): Boolean = family.properties.contains(Aggregates)

  /** A declared state as a version has it. */
  def of(family: StateFamily): StateSpec = StoredTypes.reading(family.name) {
    val recorded = family.properties
    def dataType(json: String) = StoredTypes.parse(json, family.name)
    StateSpec(
      family.name,
      kindOf(recorded("kind")),
      recorded("kind").replace('_', ' '),
      dataType(recorded("valueType")),
      // It may have been declared with fields that are not null after others had a null.
      recorded.get("keyType").map(dataType(_).asNullable),
      recorded.get("order").fold[StoredOrder](StoredOrder.Natural)(StoredOrder.byName),
      schemas = recorded
        .get("schemas")
        .fold(Seq.empty[DataType])(SchemaEvolution.schemas(_).map(dataType)),
      isBroadcast = isBroadcast(family),
      aggregates = recorded.get(Aggregates).map(AggregateRecord.fromJson),
      pattern = recorded.get(Pattern).map(PatternRecord.fromJson)
    )
  }

  private def kindOf(name: String): StateKind =
    if (name == Broadcast) StateKind.Map else StateKind.byName(name)

  /** A state as Python declares it. */
  def fromJson(json: JValue): StateSpec = {
    val declared = new SpecJson("a state", json)
    import declared.field
    val kind = field(Kind).extract[String]
    StateSpec(
      name = field(Name).extract[String],
      kind = kindOf(kind),
      descriptor = field(Descriptor).extract[String],
      valueType = dataType(field(ValueType)),
      keyType = Option.when(field(KeyType) != JNull)(dataType(field(KeyType))),
      order = StoredOrder.byName(field(Order).extract[String]),
      ttl = Option.when(field(Ttl) != JNull)(timeToLive(field(Ttl))),
      isBroadcast = kind == Broadcast,
      maxEntries = field(MaxEntries).extractOpt[Long]
    )
  }

  private def dataType(json: JValue) = DataType.fromJson(JsonMethods.compact(json))

  private def timeToLive(json: JValue): TimeToLive = {
    val declared = new SpecJson("a time to live", json)
    import declared.field
    TimeToLive(
      millis = field(TtlFields.Millis).extract[Long],
      eventTime = field(TtlFields.EventTime).extract[Boolean],
      updatedOnRead = field(TtlFields.UpdatedOnRead).extract[Boolean],
      returnExpired = field(TtlFields.ReturnExpired).extract[Boolean],
      sweepSize = field(TtlFields.SweepSize).extract[Int],
      sweepOnRecords = field(TtlFields.SweepOnRecords).extract[Boolean],
      dropOnMerge = field(TtlFields.DropOnMerge).extract[Boolean]
    )
  }
}
