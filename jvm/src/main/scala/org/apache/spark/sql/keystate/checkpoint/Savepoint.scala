package org.apache.spark.sql.keystate.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.checkpoint.StoreReader
import keystate.errors.KeystateErrors

/** A copy of a checkpoint as it was after its last committed micro-batch. It needs nothing of the
  * original.
  */
private[keystate] final class Savepoint(
    checkpoint: QueryCheckpoint,
    target: Path,
    conf: Configuration
) {
  private val draft =
    new CheckpointDraft(checkpoint, target, conf, KeystateErrors.savepointExists)

  /** Returns the micro-batch that the copy holds. */
  def write(): Long = {
    lazy val batch = checkpoint.batch(checkpoint.lastBatch)
    draft.write {
      draft.copy(state(batch))
      draft.copyMetadata()
      // Spark also reads the entry before the last one. A micro-batch that was only begun is left
      // out.
      val logs = Seq("offsets", "commits").flatMap { log =>
        Seq(batch.number - 1, batch.number).map(number => s"$log/$number")
      }
      draft.copy(logs ++ draft.below("sources") :+ "metadata")
    }
    batch.number
  }

  /** The files that hold the state, relative to the checkpoint. */
  private def state(batch: CommittedBatch): Seq[String] = for {
    operator <- checkpoint.operators
    store <- checkpoint.stores(operator)
    partition <- 0 until checkpoint.partitions(batch, operator)
    reader = checkpoint.reader(operator, partition, store)
    id = checkpoint.idOf(batch, operator, partition, store)
    manifest = reader.manifest(batch.version, id, batch.partitions)
    file <- reader.versionFile(batch.version, id, batch.partitions) +: StoreReader.files(manifest)
  } yield s"state/$operator/$file"
}
