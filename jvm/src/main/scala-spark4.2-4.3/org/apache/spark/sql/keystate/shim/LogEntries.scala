package org.apache.spark.sql.keystate.shim

import java.io.{InputStream, OutputStream}

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset

/** The entries of the offset log and the commit log, which have several versions from Spark 4.2 on.
  * Relies on the classes of the offset log's two versions.
  */
private[keystate] object LogEntries {
  type Offsets = OffsetSeqBase
  type Metadata = OffsetSeqMetadataBase
  type Commit = CommitMetadataBase

  /** The newest version of the offset log, in which each line names its source. */
  final val OffsetVersion = 2

  /** An entry of version 2. */
  def namedOffsets(bySource: Map[String, Option[SerializedOffset]], metadata: String): Offsets =
    Option(OffsetSeqMetadataV2(metadata)).fold(
      throw new IllegalStateException("there is nothing in it")
    )(OffsetMap(bySource, _))

  def version(entry: Offsets): Int = entry match {
    case _: OffsetMap => OffsetVersion
    case _ => 1
  }

  /** A line for each source. */
  def offsetLines(entry: Offsets, nothing: String): Seq[String] = entry match {
    case v2: OffsetMap =>
      v2.offsetsMap.toSeq.map { case (source, offset) =>
        s"$source:${offset.fold(nothing)(_.json)}"
      }
    case v1 => v1.offsets.map(_.fold(nothing)(_.json))
  }

  def metadata(entry: Offsets): Option[Metadata] = entry.metadataOpt

  /** The position in a source. None if sources have names. */
  def offset(entry: Offsets, source: Int): Option[Offset] = entry match {
    case v1: OffsetSeq => v1.offsets.lift(source).flatten
    case _ => None
  }

  def withoutOffsets(entry: Offsets, sources: Int): Offsets = entry match {
    case v1: OffsetSeq => v1.copy(offsets = Seq.fill(sources)(None))
    case v2: OffsetMap => v2.copy(Map.empty, v2.metadata)
    case other => throw new IllegalStateException(s"unknown offset entry $other")
  }

  def withSetting(entry: Offsets, conf: (String, String)): Offsets = entry match {
    case v1: OffsetSeq =>
      v1.copy(metadataOpt = v1.metadataOpt.map {
        case metadata: OffsetSeqMetadata => metadata.copy(conf = metadata.conf + conf)
        case other => throw new IllegalStateException(s"unknown offset metadata $other")
      })
    case v2: OffsetMap => v2.copy(metadata = v2.metadata.copy(conf = v2.metadata.conf + conf))
    case other => throw new IllegalStateException(s"unknown offset entry $other")
  }

  def readCommit(in: InputStream): Commit = CommitLog.readCommitMetadata(in)

  /** Spark's writer is a method of its log, which needs a session. */
  def writeCommit(session: SparkSession, log: Path, commit: Commit, out: OutputStream): Unit =
    new CommitWriter(session, log).write(commit, out)

  private final class CommitWriter(session: SparkSession, log: Path)
      extends CommitLog(session, log.toString) {
    def write(entry: Commit, out: OutputStream): Unit = serialize(entry, out)
  }

  def withIds(commit: Commit, ids: Option[Map[Long, Array[Array[String]]]]): Commit =
    commit.withStateUniqueIds(ids)
}
