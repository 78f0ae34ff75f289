package org.apache.spark.sql.keystate.edit

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession

import keystate.errors.KeystateErrors
import keystate.version.Manifest
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{OffsetEntry, QueryLogs}
import org.apache.spark.sql.keystate.savepoint.CheckpointDraft

/** Makes the checkpoint that a new query starts from, from DataFrames. Its operators and logs are
  * those of an [[EmptyQuery]] for each operator, with other version files, and without offsets.
  */
private[keystate] final class NewCheckpoint(session: SparkSession, target: Path) {

  /** @param operators
    *   one at least, in the order of their numbers
    * @param sources
    *   how many sources the query will have; each begins at its start
    */
  def write(operators: Seq[WrittenOperator], partitions: Int, sources: Int): Unit =
    started(operators.head, partitions)(fill(_, _, operators, partitions, sources))

  private def started[T](operator: WrittenOperator, partitions: Int)(
      use: (QueryCheckpoint, Seq[Manifest]) => T
  ): T = new EmptyQuery(session, operator.keys, operator.spec).run(target, partitions)(use)

  private def fill(
      first: QueryCheckpoint,
      manifests: Seq[Manifest],
      operators: Seq[WrittenOperator],
      partitions: Int,
      sources: Int
  ): Unit = {
    val batch = first.lastBatch
    val conf = session.sessionState.newHadoopConf()
    val draft = new CheckpointDraft(first, target, conf, KeystateErrors.targetExists)
    draft.write {
      val writer = new OperatorWriter(session, draft, batch + 1)
      val ids = writer.write(operators.head, kept = None)(first, manifests) +:
        operators.tail.map(one => started(one, partitions)(writer.write(one, kept = None)))
      draft.copyCommit(session, batch)(_ => operators.map(_.number).zip(ids).toMap)
      val entry = QueryLogs.offsets(conf, first.root).get(batch).get
      QueryLogs
        .offsets(conf, draft.root)
        .replace(batch, OffsetEntry.withoutOffsets(entry, sources))
    }
  }
}
