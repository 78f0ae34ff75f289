package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, CollationAwareMurmur3Hash, Expression, GetStructField, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  StateVariableType, TransformWithStateVariableInfo
}
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.types.StructType

/** The columns of the keys in the state of Spark 4.1's own operators. Spark 4.1 does not describe
  * them, so this relies on the names of its operators, stores and column families, and on the
  * columns that each adds before or after those by which its rows are shuffled.
  */
private[keystate] object StateKeys {
  private val SessionWindow = "sessionWindowStateStoreSaveExec"
  private val KeyedByWhole = Set(
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState"
  )
  private val Indexes = Seq("$ttl_", "$min_", "$count_", "$rowCounter_")

  /** The columns by which Spark shuffles, of all columns of a key. */
  def withoutTime[T](spec: KeyStateEncoderSpec, columns: Seq[T]): Seq[T] = columns

  /** The hash by which Spark shuffles a key's rows, computed from the key in the state.
    *
    * @param joinFormat
    *   the format of a stream-stream join's state
    * @param variable
    *   the state of transformWithState that the family belongs to
    */
  def shuffleHash(
      operator: String,
      store: String,
      family: String,
      spec: KeyStateEncoderSpec,
      keys: StructType,
      joinFormat: Option[Int],
      variable: Option[TransformWithStateVariableInfo]
  ): UnsafeRow => Int = {
    val columns = keys.zipWithIndex.map { case (column, i) =>
      BoundReference(i, column.dataType, column.nullable)
    }
    def unknown(what: String) =
      throw new IllegalStateException(s"Spark 4.1 has no $what in operator $operator")
    val shuffled = operator match {
      case SYMMETRIC_HASH_JOIN_EXEC_OP_NAME =>
        val name = if (joinFormat.exists(_ >= 3)) family else store
        if (name.endsWith("-keyWithIndexToValue")) columns.dropRight(1)
        else if (name.endsWith("-keyToNumValues")) columns
        else unknown(s"store $name")
      case SessionWindow => columns.dropRight(1)
      case transform if TRANSFORM_WITH_STATE_OP_NAMES.contains(transform) =>
        ofTransform(family, columns, variable.map(_.stateVariableType))
      case other => if (KeyedByWhole(other)) columns else unknown("state that can be rescaled")
    }
    val hash = UnsafeProjection.create(Seq(new CollationAwareMurmur3Hash(shuffled)))
    key => hash(key).getInt(0)
  }

  private def ofTransform(
      family: String,
      columns: Seq[Expression],
      kind: Option[StateVariableType.StateVariableType]
  ): Seq[Expression] = {
    val isMap = kind.contains(StateVariableType.MapState)
    if (family.endsWith("Timers_keyToTimestamp")) fields(columns.head)
    else if (family.endsWith("Timers_timestampToKey")) fields(columns(1))
    else if (family.startsWith("$ttl_")) {
      val entry = fields(columns(1))
      if (isMap) fields(entry.head) else entry
    } else if (isMap) fields(columns.head)
    else columns
  }

  private def fields(struct: Expression): Seq[Expression] =
    struct.dataType.asInstanceOf[StructType].indices.map(GetStructField(struct, _))

  /** The state of transformWithState that a column family belongs to. */
  def stateOf(family: String): String =
    Indexes.find(family.startsWith).fold(family)(family.stripPrefix)

  def isInternal(family: String): Boolean = family.startsWith("$")

  /** Whether a stream-stream join keeps several values of one key in a family. */
  def isListOfJoin(family: String): Boolean = false
}
