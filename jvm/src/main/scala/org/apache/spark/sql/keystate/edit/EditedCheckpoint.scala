package org.apache.spark.sql.keystate.edit

import org.apache.hadoop.fs.Path
import org.json4s.JString
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

import keystate.errors.KeystateErrors
import keystate.files.{Concurrently, StoreLocation}
import org.apache.spark.sql.keystate.checkpoint.{CommittedBatch, QueryCheckpoint}
import org.apache.spark.sql.keystate.savepoint.{CheckpointDraft, CopyIdentity}
import org.apache.spark.sql.keystate.spec.{StateSpec, TimeMode}

/** Makes a changed copy of a checkpoint as it was after its last committed micro-batch. The state
  * of an edited operator is written again, that of the others is copied.
  *
  * @param fork
  *   the fork or successor that it belongs to
  */
private[keystate] final class EditedCheckpoint(
    session: SparkSession,
    source: QueryCheckpoint,
    target: Path,
    fork: Option[CopyIdentity] = None
) {
  private val draft = new CheckpointDraft(
    source,
    target,
    session.sessionState.newHadoopConf(),
    KeystateErrors.targetExists,
    fork = fork
  )

  /** Returns the micro-batch that the copy holds.
    *
    * @param copied
    *   the operators that are copied as they are, and their numbers in the copy
    * @param sameKeys
    *   the operators whose keys are as they were, and their numbers in the copy
    */
  def write(
      copied: Seq[(Long, Long)],
      written: Seq[WrittenOperator],
      sameKeys: Map[Long, Long]
  ): Long = {
    val batch = source.batch(source.lastBatch)
    draft.write {
      check(batch, copied.map(_._1))
      draft.copyState(batch, copied)
      copied.foreach { case (operator, as) => draft.describe(source, operator, as) }
      draft.copyLogs(batch)
      val ids = written.map(one => one.number -> write(one, batch))
      if (batch.ids.nonEmpty) draft.copyCommit(session, batch.number) { before =>
        copied.flatMap { case (operator, as) => before.get(operator).map(as -> _) }.toMap ++ ids
      }
      // Last, for they may come while all this is written.
      draft.copyRequests(batch.number, sameKeys.get)
    }
    batch.number
  }

  /** Throws if a file of operators' state is damaged, because files that are only copied are not
    * read.
    */
  private def check(batch: CommittedBatch, operators: Seq[Long]): Unit = {
    val all = for {
      operator <- operators
      store <- source.stores(operator)
      partition <- 0 until source.partitions(batch, operator)
    } yield (operator, partition, store)
    Concurrently.foreach(all) { case (operator, partition, store) =>
      val manifest = source.manifest(batch, operator, partition, store)
      source.reader(operator, partition, store).check(manifest)
    }(_ => ())(_ => ())
  }

  /** Returns the ids of the new versions, by partition and store. */
  private def write(of: WrittenOperator, batch: CommittedBatch): Array[Array[String]] = {
    val kept = of.from.map(keptStates(_, of.kept, batch))
    val declared = kept.fold(Seq.empty[StateSpec])(_.states.toSeq.collect {
      case (name, family) if StateSpec.isOne(family) && !StateSpec.isBroadcast(family) =>
        StateSpec.of(family).copy(name = name)
    })
    val spec = of.spec.copy(
      name = of.from.flatMap(source.record).flatMap(_.name),
      states = declared ++ withRecords(of.spec.states, of.from, batch),
      broadcast = Nil,
      timeMode = of.spec.timeMode match {
        case TimeMode.AsBefore => of.from.fold[TimeMode](TimeMode.NoTime)(timeMode)
        case other => other
      }
    )
    val format = if (batch.ids.isEmpty) "1" else "2"
    new EmptyQuery(session, of.keys, spec).run(
      target,
      batch.partitions,
      SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> format
    )(new OperatorWriter(session, draft, batch.version).write(of, kept))
  }

  /** States whose rows are replaced, with what is recorded of the aggregates that they have. */
  private def withRecords(
      states: Seq[StateSpec],
      from: Option[Long],
      batch: CommittedBatch
  ): Seq[StateSpec] = {
    val recorded = for {
      operator <- from.toSeq
      family <- source.states(operator, manifest(operator, batch))
      if StateSpec.hasAggregates(family)
      record <- StateSpec.of(family).aggregates
    } yield family.name -> record
    states.map(state => state.copy(aggregates = recorded.toMap.get(state.name)))
  }

  private def manifest(operator: Long, batch: CommittedBatch) =
    source.manifest(batch, operator, 0, StoreLocation.DefaultStore)

  private def keptStates(operator: Long, kept: Map[String, String], batch: CommittedBatch) = {
    val store = StoreLocation.DefaultStore
    val manifest = this.manifest(operator, batch)
    val recorded = source.states(operator, manifest)
    KeptStates(
      source.operatorFolder(operator),
      operator,
      batch.version,
      (0 until batch.partitions).map(source.idOf(batch, operator, _, store)),
      kept.map { case (old, name) => name -> recorded.find(_.name == old).get },
      manifest.families
    )
  }

  /** The time mode that Spark recorded of an operator. */
  private def timeMode(operator: Long): TimeMode =
    parse(source.operatorProperties(operator)) \ "timeMode" match {
      case JString(name) => TimeMode.recorded(name)
      case _ => TimeMode.NoTime
    }
}
