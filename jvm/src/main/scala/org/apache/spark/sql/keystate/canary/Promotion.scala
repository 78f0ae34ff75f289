package org.apache.spark.sql.keystate.canary

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{CheckpointOwner, QueryLogs}
import org.apache.spark.sql.keystate.forget.{CarriedRequests, ForgetFiles}
import org.apache.spark.sql.keystate.savepoint.CheckpointDraft

/** Replaces a checkpoint by its changed copy: from then on no query starts on the original, and the
  * error names the copy. The copy has the original's query id and micro-batches, with the pending
  * one, so a sink that identifies micro-batches by their ids gets each of them once.
  *
  * The list of the original's owners decides which of the two can start ([[CheckpointOwner]]), and
  * the last of its files counts. Whoever begins a promotion is in it; so is whoever starts the
  * copy, as long as the original may go on again. The file that gives the copy the original's
  * place, or takes it away again, is written only if nobody has come in between. So at every point
  * exactly one of the two can start:
  *   - the original, until that file exists. The copy is a successor
  *     ([[org.apache.spark.sql.keystate.files.OwnerFiles.Successor]]) without a place, and the next
  *     promotion deletes it;
  *   - the copy from then on;
  *   - the original again, once `undo` has written that it goes on.
  *
  * @param operators
  *   the operators whose keys are unchanged in the copy, and their numbers there
  */
private[keystate] final class Promotion(
    original: Path,
    copy: Path,
    operators: Map[Long, Long],
    conf: Configuration
) {
  private val name = s"promotion to $copy"

  /** Takes the original, until `end`, and deletes the copy of an earlier promotion. From now on a
    * driver that still runs the old query can't commit.
    */
  def begin(): Unit = {
    CheckpointOwner.take(original, conf, name)
    new Fork(copy, conf).delete(asSuccessor = true)
  }

  /** Gives the copy the place of the original, whose last micro-batch is `batch`. */
  def run(batch: Long): Unit = {
    carry(original, copy, batch)
    // If this is cut off, whoever starts the copy does what is done here at the end.
    val numbers = operators.map { case (number, as) => s"$number" -> as }
    requestsOf(copy).writeOrigin(ForgetFiles.Origin(s"$original", batch, numbers))
    carryRequests(batch)
    if (lastBatch(original) != batch) throw KeystateErrors.queryIsRunning(s"$original")
    CheckpointOwner.move(original, copy)
    // From now on requests get the error that the original has moved.
    carryRequests(batch)
    requestsOf(copy).deleteOrigin()
  }

  /** Call it whatever the outcome. */
  def end(): Unit = CheckpointOwner.release(original, name)

  /** Lets the original go on again, with the micro-batch that the copy has started. Returns false
    * if the copy has committed one: it is too late then.
    */
  def undo(batch: Long): Boolean = {
    val back = s"return from $copy"
    // From now on a driver that still runs the new query can't commit.
    CheckpointOwner.take(copy, conf, back)
    try
      lastBatch(copy) == batch && {
        carry(copy, original, batch)
        carried(copy, batch, operators.map(_.swap)).write(requestsOf(original), batch + 1)
        CheckpointOwner.moveBack(copy)
        new Fork(copy, conf).delete(asSuccessor = true)
        true
      }
    finally CheckpointOwner.release(copy, back)
  }

  /** Copies the pending micro-batch, with the sources' files for it. */
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
