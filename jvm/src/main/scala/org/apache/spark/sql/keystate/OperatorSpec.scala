package org.apache.spark.sql.keystate

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import keystate.backend.{Layout, StateFamily}
import keystate.checkpoint.OperatorState
import keystate.ttl.TimeToLive

/** How a state is stored. Reducing, aggregating and folding state store their accumulator as a
  * value.
  */
private[keystate] sealed abstract class StateKind(val name: String, val layout: Layout)

private[keystate] object StateKind {
  case object Value extends StateKind("value", Layout.Point)
  case object List extends StateKind("list", Layout.Grouped)
  case object Map extends StateKind("map", Layout.Grouped)
  case object SortedMap extends StateKind("sorted_map", Layout.Grouped)
  case object Broadcast extends StateKind("broadcast", Layout.Ordered)

  /** Where only a state with keys can be. */
  def notKeyed: Nothing = throw new IllegalArgumentException("broadcast state has no key")

  val all: Seq[StateKind] = Seq(Value, List, Map, SortedMap, Broadcast)

  def byName(name: String): StateKind = all
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"unknown state kind '$name'"))
}

/** One state that a function declared.
  *
  * @param descriptor
  *   the kind the user asked for, for messages: `reducing` where `kind` is `value`
  * @param valueType
  *   type of the value, of a list's element, or of a map's value
  * @param keyType
  *   type of a map's key
  * @param order
  *   the order of a sorted map's keys
  * @param schemas
  *   if `valueType` has changed: all value types that entries may be stored with, by their schema id,
  *   the newest last
  */
private[keystate] final case class StateSpec(
    name: String,
    kind: StateKind,
    descriptor: String,
    valueType: DataType,
    keyType: Option[DataType],
    order: KeyOrder,
    ttl: Option[TimeToLive] = None,
    schemas: Seq[DataType] = Nil
) {
  if (StateSpec.isReserved(name)) throw KeystateErrors.reservedName(name)

  val rowSchema: StructType = StateSpec.rowSchema(kind, valueType)

  /** Whether the stored row is the value itself rather than a row around it. */
  val isStruct: Boolean = kind != StateKind.List && valueType.isInstanceOf[StructType]

  def describe: String = {
    val value = SchemaEvolution.bare(valueType).sql
    keyType.fold(s"$descriptor<$value>")(key => s"$descriptor<${key.sql}, $value>")
  }

  /** What the checkpoint keeps of this state. */
  def properties: Map[String, String] = Map(
    "kind" -> kind.name,
    "valueType" -> SchemaEvolution.bare(valueType).json,
    "order" -> order.name
  ) ++ keyType.map("keyType" -> _.json) ++
    Option.when(schemas.nonEmpty)("schemas" -> SchemaEvolution.toJson(schemas))
}

private[keystate] object StateSpec {

  /** The row that a stored value holds: a struct's own fields, else one column named `value`. A list
    * stores rows of one array each.
    */
  def rowSchema(kind: StateKind, valueType: DataType): StructType = (kind, valueType) match {
    case (StateKind.List, element) => new StructType().add("value", ArrayType(element))
    case (_, struct: StructType) => struct
    case (_, other) => new StructType().add("value", other)
  }

  /** Spark's and Keystate's own families have such names. */
  private def isReserved(name: String): Boolean =
    name.isEmpty || name != name.trim || name == "default" || name.startsWith("$")

  /** Whether a family is a state that a function declared. */
  def isOne(family: StateFamily): Boolean =
    family.properties.get("kind").exists(kind => StateKind.all.exists(_.name == kind))

  /** A declared state as a version has it. */
  def of(family: StateFamily): StateSpec = StoredTypes.reading(family.name) {
    val recorded = family.properties
    def dataType(json: String) = StoredTypes.parse(json, family.name)
    StateSpec(
      family.name,
      StateKind.byName(recorded("kind")),
      recorded("kind").replace('_', ' '),
      dataType(recorded("valueType")),
      recorded.get("keyType").map(dataType),
      recorded.get("order").fold[KeyOrder](KeyOrder.Natural)(KeyOrder.byName),
      schemas = recorded
        .get("schemas")
        .fold(Seq.empty[DataType])(SchemaEvolution.schemas(_).map(dataType))
    )
  }
}

/** What Python says of one keyed operator.
  *
  * @param timers
  *   whether the function can have timers
  * @param broadcast
  *   the broadcast states; none if no stream is broadcast to the operator
  * @param checkpointed
  *   whether the function takes part in checkpoints: each of its subtasks then has operator state, and
  *   runs in every batch
  * @param rawKeyed
  *   whether it can have raw keyed state as well
  * @param operatorStates
  *   the lists of that operator state
  * @param sideOutputs
  *   whether its output has a struct column for the main output and for each side output
  * @param metrics
  *   whether the function has metrics of its own
  */
private[keystate] final case class OperatorSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    timeMode: String,
    timers: Boolean,
    states: Seq[StateSpec],
    broadcast: Seq[StateSpec] = Nil,
    checkpointed: Boolean = false,
    rawKeyed: Boolean = false,
    operatorStates: Seq[StateSpec] = Nil,
    sideOutputs: Boolean = false,
    metrics: Boolean = false
) {

  /** The operator as it goes on from a version; refuses a state that what is stored does not fit.
    *
    * @param recorded
    *   finds a state as the version has it
    */
  def continuing(recorded: String => Option[StateFamily]): OperatorSpec = {
    def continue(state: StateSpec) = SchemaEvolution.continue(state, recorded(state.name))
    copy(
      states = states.map(continue),
      broadcast = broadcast.map(continue),
      operatorStates =
        OperatorStateStore.continuing(operatorStates, recorded(OperatorState.FamilyName))
    )
  }

  /** What the operator keeps in its store: its states, its broadcast states and their tag, its raw
    * keyed state, its operator state, and last its timers, as far as it has them. The ids are for a
    * store of its own; one that lives on assigns them.
    */
  def families: Seq[StateFamily] = {
    val stored = (states ++ broadcast).map(s => (s.name, s.kind.layout, s.properties)) ++
      Option.when(broadcast.nonEmpty)(
        (BroadcastStates.FamilyName, Layout.Ordered, BroadcastStates.FamilyProperties)
      ) ++
      Option.when(rawKeyed)(
        (RawKeyedState.FamilyName, RawKeyedState.FamilyLayout, RawKeyedState.FamilyProperties)
      ) ++
      Option.when(checkpointed)(
        (
          OperatorState.FamilyName,
          Layout.Ordered,
          OperatorStateStore.properties(operatorStates)
        )
      ) ++
      Option.when(timers)(
        (TimerChannel.FamilyName, TimerChannel.FamilyLayout, TimerChannel.FamilyProperties)
      )
    stored.zipWithIndex.map { case ((name, layout, properties), id) =>
      StateFamily(id, name, layout, properties)
    }
  }
}

private[keystate] object OperatorSpec {
  private implicit val formats: Formats = DefaultFormats

  def fromJson(json: String): OperatorSpec = {
    val root = JsonMethods.parse(json)
    OperatorSpec(
      name = (root \ "name").extractOpt[String],
      maxParallelism = (root \ "max_parallelism").extractOpt[Int],
      timeMode = (root \ "time_mode").extract[String],
      timers = (root \ "timers").extract[Boolean],
      states = (root \ "states").children.map(state),
      broadcast = (root \ "broadcast").children.map(state),
      checkpointed = (root \ "checkpointed").extractOpt[Boolean].getOrElse(false),
      rawKeyed = (root \ "raw_keyed").extractOpt[Boolean].getOrElse(false),
      operatorStates = (root \ "operator_states").children.map(state),
      sideOutputs = (root \ "side_outputs").extractOpt[Boolean].getOrElse(false),
      metrics = (root \ "metrics").extractOpt[Boolean].getOrElse(false)
    )
  }

  private def state(json: JValue) = StateSpec(
    name = (json \ "name").extract[String],
    kind = StateKind.byName((json \ "kind").extract[String]),
    descriptor = (json \ "descriptor").extract[String],
    valueType = DataType.fromJson(JsonMethods.compact(json \ "value_type")),
    keyType = (json \ "key_type") match {
      case JNothing | JNull => None
      case keyType => Some(DataType.fromJson(JsonMethods.compact(keyType)))
    },
    order = KeyOrder.byName((json \ "order").extract[String]),
    ttl = StateTtl.fromJson(json \ "ttl")
  )
}
