package org.apache.spark.sql.keystate.checkpoint

import scala.annotation.tailrec
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.KeystateErrors

/** A copy of a checkpoint as it was after a committed micro-batch. It needs nothing of the original.
  *
  * The query may run meanwhile, in any process. What is copied is written once, but for two things:
  * with format v1 a late attempt may replace a version's file, see [[CheckpointDraft]], and a
  * rescale replaces a batch's entries in the logs, so they are looked at again after they were
  * copied. The versions are pinned, so clean-up leaves their files alone until the copy is done. If
  * a file is gone all the same, there is no copy.
  *
  * @param version
  *   after which the state is what the copy has; by default the last one that is committed
  */
private[keystate] final class Savepoint(
    checkpoint: QueryCheckpoint,
    version: Option[Long],
    target: Path,
    conf: Configuration
) {
  private val draft =
    new CheckpointDraft(checkpoint, target, conf, KeystateErrors.savepointExists)

  /** Returns the micro-batch that the copy holds. */
  def write(): Long = {
    lazy val batch = checkpoint.batch(version.fold(checkpoint.lastBatch)(_ - 1))
    draft.write {
      pinned(batch.version) { renew =>
        draft.copyState(
          copyLogs(batch),
          checkpoint.operators.map(id => id -> id),
          renew
        )
        draft.copyMetadata()
      }
    }
    batch.number
  }

  /** Returns the micro-batch as its copied entries have it. */
  @tailrec private def copyLogs(batch: CommittedBatch): CommittedBatch = {
    draft.copyLogs(batch)
    val now = Using.resource(new QueryCheckpoint(conf, checkpoint.location))(_.batch(batch.number))
    if (now == batch) batch else copyLogs(now)
  }

  private def pinned(version: Long)(copy: (() => Unit) => Unit): Unit =
    Using.Manager { use =>
      val pins = checkpoint.operators.flatMap(checkpoint.pin(_, version))
      pins.foreach(use(_))
      copy(() => pins.foreach(_.renew()))
    }.get
}
