package org.apache.spark.sql.keystate.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

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
      draft.copyLogs(batch)
      draft.copyState(batch, checkpoint.operators.map(id => id -> id))
      draft.copyMetadata()
    }
    batch.number
  }
}
