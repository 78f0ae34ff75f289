package org.apache.spark.sql.keystate

import java.io.{ByteArrayOutputStream, OutputStream}
import java.util.Arrays

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._

/** The logs of a query, whose entries Spark itself never replaces. */
private[keystate] object QueryLogs {

  def offsets(session: SparkSession, checkpoint: Path): OffsetEntries =
    new OffsetEntries(session, new Path(checkpoint, "offsets").toString)

  def commits(session: SparkSession, checkpoint: Path): CommitEntries =
    new CommitEntries(session, new Path(checkpoint, "commits").toString)

  final class OffsetEntries(session: SparkSession, path: String)
      extends OffsetSeqLog(session, path) {
    def replace(batch: Long, entry: OffsetSeqBase): Unit =
      QueryLogs.replace(batchIdToPath(batch), session.sessionState.newHadoopConf())(
        serialize(entry, _)
      )
  }

  final class CommitEntries(session: SparkSession, path: String) extends CommitLog(session, path) {
    def replace(batch: Long, entry: CommitMetadataBase): Unit =
      QueryLogs.replace(batchIdToPath(batch), session.sessionState.newHadoopConf())(
        serialize(entry, _)
      )
  }

  /** Replaces a log's file by one that was written whole; at any time one of them is there. */
  private def replace(file: Path, conf: Configuration)(write: OutputStream => Unit): Unit = {
    val files = KeystateCheckpointFileManager.create(file.getParent, conf)
    val content = new ByteArrayOutputStream
    write(content)
    KeystateCheckpointFileManager.write(files, file, overwriteIfPossible = true)(content.writeTo)
    // A manager may leave the old file, and does not tell.
    val written = Using.resource(files.open(file))(_.readAllBytes())
    if (!Arrays.equals(written, content.toByteArray)) throw KeystateErrors.cannotReplace(file)
  }
}
