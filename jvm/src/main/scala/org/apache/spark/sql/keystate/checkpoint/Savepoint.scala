package org.apache.spark.sql.keystate.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.checkpoint.StoreReader
import keystate.errors.KeystateErrors

/** A copy of a checkpoint as it was after its last committed batch, which needs nothing of the
  * checkpoint.
  */
private[keystate] final class Savepoint(
    checkpoint: QueryCheckpoint,
    target: Path,
    conf: Configuration
) {
  private val draft =
    new CheckpointDraft(checkpoint, target, conf, KeystateErrors.savepointExists)

  /** Returns the batch that it holds. */
  def write(): Long = {
    lazy val batch = checkpoint.batch(checkpoint.lastBatch)
    draft.write {
      draft.copy(state(batch))
      draft.copyMetadata()
      // Spark reads the entry before the last one too. A batch that was only begun is left behind.
      val logs = Seq("offsets", "commits").flatMap { log =>
        Seq(batch.number - 1, batch.number).map(number => s"$log/$number")
      }
      draft.copy(logs ++ draft.below("sources") :+ "metadata")
    }
    batch.number
  }

  /** The files that the state is in, relative to the checkpoint. */
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
