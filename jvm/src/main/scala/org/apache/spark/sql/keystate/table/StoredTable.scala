package org.apache.spark.sql.keystate.table

import org.apache.spark.sql.types._

import keystate.backend.StateFamily
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import org.apache.spark.sql.keystate.checkpoint.StoredState
import org.apache.spark.sql.keystate.encoding.WindowNamespace
import org.apache.spark.sql.keystate.expression.AggregateEvaluation
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec}
import org.apache.spark.sql.keystate.state.TimerKeys

/** The rows of a table: a keyed state or the timers of an operator, or the changes of one of these.
  * Tasks get it.
  *
  * @param folder
  *   the operator's folder
  * @param family
  *   the state in the version that is read, or in the last one: older entries are read with its
  *   type
  * @param evaluation
  *   computes the aggregates of which it has the buffers; None if it has none, or they can't be
  *   computed here
  */
private[table] final case class StoredTable(
    folder: String,
    operator: Long,
    family: StateFamily,
    keySchema: StructType,
    maxParallelism: Int,
    ofChanges: Boolean,
    evaluation: Option[AggregateEvaluation] = None
) {
  import StoredTable._

  def timers: Option[TimerKeys] = TimerKeys.of(family)

  /** The columns are those of Spark's `statestore` source; it does not have those of timers. */
  def schema: StructType = {
    val rows =
      if (timers.nonEmpty) {
        val ofKey = new StructType()
          .add(Partition, IntegerType)
          .add(Key, keySchema)
          .add(TimeDomain, StringType)
          .add(ExpirationTime, LongType)
        if (timers.contains(TimerKeys.Plain)) ofKey else ofKey.add(Window, WindowNamespace.Columns)
      } else {
        val stored = new StoredState(family, keySchema)
        val spec = StateSpec.of(family)
        val key = new StructType().add(Key, keySchema)
        val entry = (spec.kind, spec.keyType) match {
          case (StateKind.List, _) => key.add(Element, stored.rowSchema)
          case (_, Some(userKey)) =>
            key
              .add(UserKey, new StructType().add("key", userKey))
              .add(UserValue, stored.rowSchema)
          case _ => key.add(Value, stored.rowSchema)
        }
        evaluation
          .fold(entry)(own => entry.add(Aggregates, own.schema))
          .add(Partition, IntegerType)
      }
    if (!ofChanges) rows
    else StructType(Seq(StructField(Version, LongType), StructField(Change, StringType)) ++ rows)
  }
}

private[table] object StoredTable {
  val Key = "key"
  val Value = "value"
  val Element = "list_element"
  val UserKey = "user_map_key"
  val UserValue = "user_map_value"
  val Aggregates = "aggregates"
  val TimeDomain = "time_domain"
  val ExpirationTime = "expiration_timestamp_ms"
  val Window = "window"
  val Partition = "partition_id"
  val Version = "version"
  val Change = "change_type"
}

/** A version of an operator's state.
  *
  * @param partitions
  *   in how many partitions it is
  * @param ids
  *   of its partitions, with checkpoint format v2
  */
private[table] final case class TableVersion(
    version: Long,
    partitions: Int,
    ids: Int => Option[String]
) {

  /** The partitions, each in pieces of about as many key groups, at least `pieces` of them if there
    * are as many key groups.
    */
  def pieces(atLeast: Int, maxParallelism: Int): Seq[TablePiece] = {
    val wanted = math.max(1, (atLeast + partitions - 1) / partitions)
    (0 until partitions).flatMap { partition =>
      val groups = KeyGroups.rangeOf(partition, partitions, maxParallelism)
      val n = math.min(wanted, groups.size)
      (0 until n).map { i =>
        val part = KeyGroups.rangeOf(i, n, groups.size)
        piece(partition, KeyGroupRange(groups.first + part.first, groups.first + part.last))
      }
    }
  }

  def piece(partition: Int, groups: KeyGroupRange, keys: Seq[Array[Byte]] = Nil): TablePiece =
    TablePiece(version, ids(partition), partitions, partition, groups, keys)
}

/** Key groups of one partition in one version.
  *
  * @param keys
  *   the only keys that are wanted, all of one group; empty if all are
  */
private[table] final case class TablePiece(
    version: Long,
    id: Option[String],
    partitions: Int,
    partition: Int,
    groups: KeyGroupRange,
    keys: Seq[Array[Byte]]
)
