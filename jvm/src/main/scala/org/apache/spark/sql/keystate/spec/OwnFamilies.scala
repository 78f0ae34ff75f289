package org.apache.spark.sql.keystate.spec

import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.{DataType, StructType}

import keystate.backend.{Layout, StateFamily}
import keystate.checkpoint.OperatorState
import keystate.version.Manifest

/** The families that Keystate keeps for itself beside a function's states: name, layout and
  * properties. They are part of the file format.
  */
private[keystate] object OwnFamilies {
  type Definition = (String, Layout, Map[String, String])

  val TimersName = "$timers"
  val RawKeyedName = "$raw_keyed"
  val BroadcastTag = "$broadcast"

  val timerFamily: Definition = (TimersName, Layout.Ordered, Map("kind" -> "timers"))
  val rawKeyedFamily: Definition = (RawKeyedName, Layout.Ordered, Map("kind" -> "raw_keyed"))
  val broadcastTagFamily: Definition =
    (BroadcastTag, Layout.Ordered, Map("kind" -> "broadcast_tag"))

  /** The property of the timers' family that has the type of the key.
    *
    * @param keys
    *   JSON of the key columns
    */
  def timerKey(keys: String): (String, String) = TimerKey -> keys

  /** JSON of the key columns, if the family is that of timers and tells it. */
  def timerKey(family: StateFamily): Option[String] =
    if (family.name == TimersName) family.properties.get(TimerKey) else None

  /** Throws if there are timers of another key. Checkpoints of the first releases don't tell it.
    *
    * @param named
    *   gives key columns the names that a checkpoint has for them
    */
  def checkTimerKey(timers: StateFamily, keys: String)(named: StructType => StructType): Unit =
    timers.properties.get(TimerKey).filter(_ != keys).foreach { recorded =>
      def columns(json: String) = named(DataType.fromJson(json).asInstanceOf[StructType])
      SchemaEvolution.checkKey(columns(recorded), columns(keys))
    }

  private final val TimerKey = "keyType"

  /** The properties of Spark's default family in a version that a batch in real-time mode makes. It
    * names the version, for later ones take the family over as it is.
    */
  def madeInRealTime(properties: Map[String, String], version: Long): Map[String, String] =
    properties + (RealTime -> version.toString)

  /** Whether a batch in real-time mode made the version. Unknown for those of earlier builds. */
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
