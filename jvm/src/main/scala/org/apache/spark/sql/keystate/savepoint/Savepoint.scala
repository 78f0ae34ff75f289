package org.apache.spark.sql.keystate.savepoint

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{FileSystemException, NoSuchFileException}
import java.util.UUID

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.{ErrorCode, KeystateErrors, KeystateException}
import keystate.files.{Concurrently, StoreLocation}
import keystate.version.PinnedVersions
import org.apache.spark.sql.keystate.checkpoint.{CommittedBatch, QueryCheckpoint}
import org.apache.spark.sql.keystate.files.CheckpointFiles

/** A copy of a checkpoint as it was after a committed micro-batch. It needs nothing of the
  * original.
  *
  * The query may run meanwhile, in any process. The copied files never change, with two exceptions:
  * with format v1 a late attempt may replace a version's file, see [[CheckpointDraft]], and a
  * rescale replaces a batch's entries in the logs, so they are checked again after the copy. The
  * versions are pinned, so clean-up keeps their files until the copy is done. If a file is gone
  * despite that, there is no copy.
  *
  * @param version
  *   the copy has the state after this version; by default after the last committed one
  * @param links
  *   whether its run files are hard links
  * @param fork
  *   the [[Fork]] that it belongs to
  */
private[keystate] final class Savepoint(
    checkpoint: QueryCheckpoint,
    version: Option[Long],
    target: Path,
    conf: Configuration,
    links: Boolean = false,
    fork: Option[CopyIdentity] = None
) {
  import Savepoint._

  private val draft =
    new CheckpointDraft(
      checkpoint,
      target,
      conf,
      KeystateErrors.savepointExists,
      links,
      fork = fork
    )

  private val records = new SavepointRecords(checkpoint.root, conf)
  private val kind = if (links) SavepointRecords.Links else SavepointRecords.Copy

  /** Returns the micro-batch that the copy holds. */
  def write(): Long = records.telling(draft.root, kind)(write(attempts = 10))

  private def write(attempts: Int): Long = {
    lazy val batch = checkpoint.batch(version.fold(checkpoint.lastBatch)(_ - 1))
    var bytes = 0L
    try {
      // Pins do not keep the logs, so these come first.
      draft.write {
        val copied = copyLogs(batch)
        draft.copyRequests(copied.number)
        pinned(copied) { renew =>
          bytes = draft.copyState(copied, checkpoint.operators.map(id => id -> id), renew)
          draft.copyMetadata()
        }
      }
      tell(batch.number, if (links) bytes else 0)
      batch.number
    } catch {
      // The query went on, and no longer keeps the batch that was its last one.
      case e: Exception if isGone(e) && version.isEmpty && attempts > 1 && isAfter(batch) =>
        reopened(new Savepoint(_, version, target, conf, links, fork).write(attempts - 1))
    }
  }

  /** Only for lists of savepoints: if the checkpoint is read-only there is no list. */
  private def tell(batch: Long, shared: Long): Unit =
    try {
      val now = System.currentTimeMillis
      val record = SavepointRecords
        .Record(SavepointRecords.Made, s"$target", kind, batch, now, shared)
      records.make(UUID.randomUUID.toString, record): Unit
    } catch { case _: IOException => }

  /** Returns the micro-batch as its copied entries have it. */
  @tailrec private def copyLogs(batch: CommittedBatch): CommittedBatch = {
    draft.copyLogs(batch)
    val now = reopened(_.batch(batch.number))
    if (now == batch) batch else copyLogs(now)
  }

  private def isAfter(batch: CommittedBatch): Boolean = reopened(_.lastBatch) > batch.number

  private def reopened[T](read: QueryCheckpoint => T): T =
    Using.resource(new QueryCheckpoint(conf, checkpoint.location))(read)

  private def pinned(batch: CommittedBatch)(copy: (() => Unit) => Unit): Unit = {
    val stores = for {
      operator <- checkpoint.operators
      store <- checkpoint.stores(operator)
      partition <- 0 until checkpoint.partitions(batch, operator)
    } yield StoreLocation(operator, partition, store)
    val pins = mutable.ArrayBuffer.empty[PinnedVersions.Pin]
    try {
      Concurrently.foreach(stores)(checkpoint.pin(_, batch.version))(_.foreach(_.close()))(
        pins ++= _
      )
      copy(() => pins.foreach(_.renew()))
    } finally Concurrently.foreach(pins.toSeq)(_.close())(_ => ())(_ => ())
  }
}

private[keystate] object Savepoint {

  /** Makes a savepoint that copies no run files. If both are on one local disk, each run file gets
    * a second name there (a hard link), so the two are independent of each other. Elsewhere it is a
    * [[SharedSavepoint]]. Returns the micro-batch that it holds.
    */
  def byReference(
      checkpoint: QueryCheckpoint,
      version: Option[Long],
      target: Path,
      conf: Configuration,
      fork: Option[CopyIdentity] = None
  ): Long = {
    def shared() = new SharedSavepoint(checkpoint, version, target, conf, fork).write()
    if (Seq(checkpoint.root, target).forall(CheckpointFiles.isPlainLocal(_, conf)))
      try new Savepoint(checkpoint, version, target, conf, links = true, fork).write()
      catch {
        case _: UnsupportedOperationException => shared()
        // Two file systems, or one without hard links.
        case e: FileSystemException if !e.isInstanceOf[NoSuchFileException] => shared()
      }
    else shared()
  }

  /** Whether an error means a missing file. */
  private[savepoint] def isGone(error: Exception): Boolean = error match {
    case e: KeystateException => Gone(e.errorCode)
    case _ => error.isInstanceOf[FileNotFoundException]
  }

  private val Gone =
    Set[ErrorCode](ErrorCode.NoCheckpoint, ErrorCode.MissingVersion, ErrorCode.MissingFile)
}
