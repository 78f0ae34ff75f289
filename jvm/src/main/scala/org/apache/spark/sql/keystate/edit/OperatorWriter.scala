package org.apache.spark.sql.keystate.edit

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStore

import keystate.backend.StateFamily
import keystate.checkpoint.OperatorState
import keystate.version.Manifest
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.operator.StaticInputs
import org.apache.spark.sql.keystate.savepoint.CheckpointDraft
import org.apache.spark.sql.keystate.spec.{StateSpec, SystemColumnFamilies, TimeMode}

/** Writes an operator into a new checkpoint: what describes it, and its state. */
private[keystate] final class OperatorWriter(
    session: SparkSession,
    draft: CheckpointDraft,
    version: Long
) {
  import OperatorWriter._

  /** Returns the ids of the new versions, by partition and store.
    *
    * @param kept
    *   the stored entries that are taken over; None if there are none
    * @param empty
    *   the checkpoint of an [[EmptyQuery]] with this operator, and its manifests
    */
  def write(
      of: WrittenOperator,
      kept: Option[KeptStates]
  )(empty: QueryCheckpoint, manifests: Seq[Manifest]): Array[Array[String]] = {
    val stays = kept.fold(Map.empty[String, StateFamily])(_.states)
    new StateWriter(
      session,
      new Path(draft.root, s"state/${of.number}"),
      of.number,
      manifests.map(complete(_, of, stays, kept.map(_.families))),
      version,
      of.keySchema
    ).write(of.states, kept, subtaskEntries(of, stays, manifests.size))
    draft.describe(empty, EmptyQuery.Operator, of.number)
    manifests.map(_.id.toArray).toArray
  }

  /** An empty query's manifest with all families of the operator: the query has no subtask state.
    * Kept states keep their properties: their records of expired entries, and earlier types. The
    * record of static inputs stays too; a new operator has read none.
    */
  private def complete(
      manifest: Manifest,
      of: WrittenOperator,
      stays: Map[String, StateFamily],
      before: Option[Seq[StateFamily]]
  ): Manifest = {
    val isOfAnyTimeMode = of.spec.timeMode match {
      case TimeMode.Auto => true
      case TimeMode.AsBefore => before.exists(SystemColumnFamilies.takesTimeMode)
      case _ => false
    }
    val described = manifest.families.map(StaticInputs.written(_, before, of.hasRun)).map {
      case family if isOfAnyTimeMode && family.name == StateStore.DEFAULT_COL_FAMILY_NAME =>
        family.copy(properties = SystemColumnFamilies.ofAnyTimeMode(family.properties))
      case family => family
    }
    val keyed = described.map { family =>
      stays
        .get(family.name)
        .fold(family)(old => family.copy(properties = family.properties ++ old.properties))
    }
    val own = subtaskFamilies(of, stays).zipWithIndex.map { case ((name, layout, properties), i) =>
      StateFamily(manifest.nextFamilyId + i, name, layout, properties)
    }
    manifest.copy(families = keyed ++ own, nextFamilyId = manifest.nextFamilyId + own.size)
  }

  private def subtaskFamilies(
      of: WrittenOperator,
      stays: Map[String, StateFamily]
  ): Seq[SystemColumnFamilies.Definition] =
    stays.toSeq.collect {
      case (name, old) if StateSpec.isBroadcast(old) => (name, old.layout, old.properties)
    } ++
      of.spec.broadcast.map(state => (state.name, state.layout, state.properties)) ++
      Option.when(hasBroadcast(of, stays))(SystemColumnFamilies.broadcastTagFamily) ++
      stays.get(SystemColumnFamilies.RawKeyedName).map(_ => SystemColumnFamilies.rawKeyedFamily) ++
      of.lists.map(lists => SystemColumnFamilies.operatorStateFamily(lists.types))

  /** Broadcast state gets a new tag, and operator state none: so no worker mistakes its own state
    * for the one written here.
    */
  private def subtaskEntries(
      of: WrittenOperator,
      stays: Map[String, StateFamily],
      partitions: Int
  ): Seq[SubtaskEntry] = (0 until partitions).flatMap { partition =>
    def entry(family: String, key: Array[Byte], value: String) =
      SubtaskEntry(partition, family, key, value.getBytes(UTF_8))
    val tag = Option.when(hasBroadcast(of, stays)) {
      entry(SystemColumnFamilies.BroadcastTag, Array.emptyByteArray, UUID.randomUUID.toString)
    }
    val lists = of.lists.map { lists =>
      entry(OperatorState.FamilyName, OperatorState.StateKey, lists.subtasks(partition))
    }
    tag ++ lists
  }
}

private object OperatorWriter {
  private def hasBroadcast(of: WrittenOperator, stays: Map[String, StateFamily]): Boolean =
    of.spec.broadcast.nonEmpty || stays.values.exists(StateSpec.isBroadcast)
}
