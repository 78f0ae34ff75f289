package org.apache.spark.sql.keystate.files

import java.io.{ByteArrayOutputStream, OutputStream}
import java.util.Arrays

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._

import keystate.errors.{KeystateErrors, KeystateException}

/** The offset log and the commit log of a query. Spark itself never replaces their entries. The
  * error for a damaged entry names its file.
  *
  * Relies on `HDFSMetadataLog`, whose `get` returns None for a missing entry.
  */
private[keystate] object QueryLogs {

  def offsets(session: SparkSession, checkpoint: Path): OffsetEntries =
    new OffsetEntries(session, new Path(checkpoint, "offsets").toString)

  def commits(session: SparkSession, checkpoint: Path): CommitEntries =
    new CommitEntries(session, new Path(checkpoint, "commits").toString)

  final class OffsetEntries(session: SparkSession, path: String)
      extends OffsetSeqLog(session, path) {
    override def get(batch: Long): Option[OffsetSeqBase] =
      naming(batchIdToPath(batch))(super.get(batch))

    override def getLatest(): Option[(Long, OffsetSeqBase)] = latest(this)

    /** The number of partitions with which a micro-batch was begun. */
    def partitions(batch: Long): Option[Int] =
      naming(batchIdToPath(batch))(get(batch).map(OffsetEntry.partitions))

    def replace(batch: Long, entry: OffsetSeqBase): Unit =
      QueryLogs.replace(batchIdToPath(batch), session.sessionState.newHadoopConf())(
        serialize(entry, _)
      )
  }

  final class CommitEntries(session: SparkSession, path: String) extends CommitLog(session, path) {
    override def get(batch: Long): Option[CommitMetadataBase] =
      naming(batchIdToPath(batch))(super.get(batch))

    override def getLatest(): Option[(Long, CommitMetadataBase)] = latest(this)

    def replace(batch: Long, entry: CommitMetadataBase): Unit =
      QueryLogs.replace(batchIdToPath(batch), session.sessionState.newHadoopConf())(
        serialize(entry, _)
      )
  }

  private def latest[T <: AnyRef](log: HDFSMetadataLog[T]): Option[(Long, T)] =
    log.getLatestBatchId().flatMap(batch => log.get(batch).map(batch -> _))

  private def naming[T](file: Path)(read: => Option[T]): Option[T] =
    try {
      val entry = read
      if (entry.exists(_ == null)) throw new IllegalArgumentException("there is nothing in it")
      entry
    } catch {
      case e: KeystateException => throw e
      case NonFatal(e) => throw KeystateErrors.damagedLog(file, e)
    }

  /** Replaces a log's file by one that is written whole. At any time the old or the new one is
    * there.
    */
  private def replace(file: Path, conf: Configuration)(write: OutputStream => Unit): Unit = {
    val files = CheckpointFiles.create(file.getParent, conf)
    val content = new ByteArrayOutputStream
    write(content)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(content.writeTo)
    // A file manager may silently keep the old file, so read it back.
    val written = Using.resource(files.open(file))(_.readAllBytes())
    if (!Arrays.equals(written, content.toByteArray)) throw KeystateErrors.cannotReplace(file)
  }
}
