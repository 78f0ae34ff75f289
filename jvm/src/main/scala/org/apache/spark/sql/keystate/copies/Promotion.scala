package org.apache.spark.sql.keystate.copies

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner, QueryLogs}
import org.apache.spark.sql.keystate.forget.{CarriedRequests, ForgetFiles}

/** Puts a changed copy of a checkpoint in its place: from then on no query starts on the original, and
  * the error names the copy. The copy has the original's query id and micro-batches, with the pending
  * one, so a sink that knows micro-batches by their ids gets each of them once.
  *
  * One file decides, [[CheckpointOwner.moved]] of the original. Before it is written the original
  * goes on, after that the copy does. Until a little later the copy has the mark of a [[Fork]], which
  * says that it may be deleted as long as the original is there and does not name it.
  *
  * @param operators
  *   the operators whose keys are in the copy as they were, and their numbers there
  */
private[keystate] final class Promotion(
    original: Path,
    copy: Path,
    operators: Map[Long, Long],
    conf: Configuration
) {
  private val files = CheckpointFiles.create(original, conf)

  /** Makes the copy, of which the original is done with `batch`, the one that goes on. */
  def run(batch: Long): Unit = {
    carry(original, copy, batch)
    carryRequests(batch)
    val name = s"promotion to $copy"
    // From now on a driver that still runs the old query can't commit.
    CheckpointOwner.take(original, conf, name)
    try {
      if (lastBatch(original) != batch) throw KeystateErrors.queryIsRunning(s"$original")
      CheckpointOwner.check(original)
      CheckpointOwner.move(original, copy, files)
      // Whoever asks from now on is told that the original has moved.
      carryRequests(batch)
    } finally CheckpointOwner.release(original, name)
    files.delete(Fork.mark(copy))
  }

  /** Lets the original go on again, with the micro-batch that the copy has begun. Returns false if the
    * copy has committed one: it is too late then.
    */
  def undo(batch: Long): Boolean = lastBatch(copy) == batch && {
    carry(copy, original, batch)
    carried(copy, batch, operators.map(_.swap)).write(requestsOf(original), batch + 1)
    CheckpointFiles.write(
      CheckpointFiles.create(copy, conf),
      Fork.mark(copy),
      overwriteIfPossible = true
    )(_.write(s"$original".getBytes(UTF_8)))
    files.delete(CheckpointOwner.unfinished(original))
    new Fork(copy, conf).delete()
    true
  }

  /** Copies the pending micro-batch, with what the sources know of it. */
  private def carry(from: Path, to: Path, batch: Long): Unit =
    QueryLogs.offsets(conf, from).get(batch + 1).foreach { entry =>
      Using.resource(new QueryCheckpoint(conf, s"$from")) { opened =>
        val draft =
          new CheckpointDraft(opened, to, conf, KeystateErrors.targetExists, alwaysInPlace = true)
        draft.copy(draft.below("sources"))
      }
      QueryLogs.offsets(conf, to).begin(batch + 1, entry)
    }

  private def carryRequests(batch: Long): Unit = {
    val requests = carried(original, batch, operators)
    requests.checkNoneLost(s"$original")
    requests.write(requestsOf(copy), batch + 1)
  }

  private def carried(from: Path, batch: Long, numbers: Map[Long, Long]) =
    new CarriedRequests(requestsOf(from), batch, numbers.get)

  private def requestsOf(root: Path) = new ForgetFiles(root, conf)

  private def lastBatch(root: Path): Long =
    QueryLogs.commits(conf, root).batches.lastOption.getOrElse(-1)
}
