package org.apache.spark.sql.keystate.spec

import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.StructType

import keystate.backend.{Layout, StateFamily}
import keystate.checkpoint.OperatorState
import keystate.version.Manifest

/** The families that Keystate keeps for itself beside a function's states: name, layout and
  * properties. They are part of the file format.
  */
private[keystate] object SystemColumnFamilies {
  type Definition = (String, Layout, Map[String, String])

  val TimersName = "$timers"
  val WindowTimersName = "$window_timers"
  val RawKeyedName = "$raw_keyed"
  val BroadcastTag = "$broadcast"

  private val timerFamily: Definition = (TimersName, Layout.Ordered, Map("kind" -> "timers"))

  /** The timers of an operator.
    *
    * @param windows
    *   what is recorded of its windows, whose timers have their window as a namespace; None: it has
    *   none
    */
  def timers(windows: Option[String]): Definition = windows.fold(timerFamily) { recorded =>
    (WindowTimersName, Layout.Ordered, Map("kind" -> "window_timers", WindowsProperty -> recorded))
  }

  /** Whether a family has timers, with windows or without. */
  def isTimers(family: StateFamily): Boolean =
    family.name == TimersName || family.name == WindowTimersName

  final val WindowsProperty = "windows"
  val rawKeyedFamily: Definition = (RawKeyedName, Layout.Ordered, Map("kind" -> "raw_keyed"))
  val broadcastTagFamily: Definition =
    (BroadcastTag, Layout.Ordered, Map("kind" -> "broadcast_tag"))

  /** The properties of Spark's default family, which each store has, for an operator with these key
    * columns. The columns have the query's names; Spark's own reader uses others, see
    * [[org.apache.spark.sql.keystate.metadata.SparkStateSchema]].
    */
  def keyedBy(keys: StructType): Map[String, String] =
    if (keys.isEmpty) Map.empty else Map(Key -> columnsOf(keys).json)

  /** The columns of an operator's key. None without a key, and of Spark's own operators. */
  def keyOf(families: Iterable[StateFamily]): Option[StructType] = for {
    family <- families.find(_.name == StateStore.DEFAULT_COL_FAMILY_NAME)
    json <- family.properties.get(Key)
  } yield StoredTypes.parse(json, "key").asInstanceOf[StructType]

  /** Key columns as they are recorded, compared and shown. All may be null: stored keys of an
    * earlier run may be null, even if the columns no longer are.
    */
  def columnsOf(keys: StructType): StructType =
    SchemaEvolution.bare(keys).asInstanceOf[StructType]

  private final val Key = "key"

  /** The default family's properties in a written version of an operator that takes the time mode
    * of the query that starts with it.
    */
  def ofAnyTimeMode(properties: Map[String, String]): Map[String, String] =
    properties + (TimeModeProperty -> TimeMode.Auto.name)

  /** The properties after a micro-batch of a query, which has one time mode. */
  def ofOneTimeMode(properties: Map[String, String]): Map[String, String] =
    properties - TimeModeProperty

  def takesTimeMode(families: Iterable[StateFamily]): Boolean = families.exists { family =>
    family.name == StateStore.DEFAULT_COL_FAMILY_NAME &&
    family.properties.contains(TimeModeProperty)
  }

  private final val TimeModeProperty = "timeMode"

  /** The properties of Spark's default family in a version that a batch in real-time mode makes.
    * They name the version, because later versions take the family over unchanged.
    */
  def madeInRealTime(properties: Map[String, String], version: Long): Map[String, String] =
    properties + (RealTime -> version.toString)

  /** Whether a batch in real-time mode made the version. */
  def isMadeInRealTime(manifest: Manifest): Boolean = manifest.families.exists { family =>
    family.name == StateStore.DEFAULT_COL_FAMILY_NAME &&
    family.properties.get(RealTime).contains(manifest.version.toString)
  }

  private final val RealTime = "realTime"

  def operatorStateFamily(lists: Seq[StateSpec]): Definition =
    operatorStateFamily(OperatorLists.types(lists))

  /** @param types
    *   JSON of the types of the lists' elements; None if none is declared
    */
  def operatorStateFamily(types: Option[String]): Definition =
    (OperatorState.FamilyName, Layout.Ordered, OperatorLists.properties(types))
}
