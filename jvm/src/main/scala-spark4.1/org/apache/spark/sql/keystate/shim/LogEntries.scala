package org.apache.spark.sql.keystate.shim

import java.io.{InputStream, OutputStream}
import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset

/** The entries of Spark 4.1's offset log and commit log, for each of which it has one class. */
private[keystate] object LogEntries {
  type Offsets = OffsetSeq
  type Metadata = OffsetSeqMetadata
  type Commit = CommitMetadata

  /** The newest version of the offset log. */
  final val OffsetVersion = 1

  /** An entry of version 2, which is newer than [[OffsetVersion]]. */
  def namedOffsets(bySource: Map[String, Option[SerializedOffset]], metadata: String): Offsets =
    throw new IllegalStateException("Spark 4.1 does not know it")

  def version(entry: Offsets): Int = OffsetVersion

  /** A line for each source. */
  def offsetLines(entry: Offsets, nothing: String): Seq[String] =
    entry.offsets.map(_.fold(nothing)(_.json))

  def metadata(entry: Offsets): Option[Metadata] = entry.metadata

  /** The position in a source. */
  def offset(entry: Offsets, source: Int): Option[Offset] = entry.offsets.lift(source).flatten

  def withoutOffsets(entry: Offsets, sources: Int): Offsets =
    entry.copy(offsets = Seq.fill(sources)(None))

  def withSetting(entry: Offsets, conf: (String, String)): Offsets = entry.copy(metadata =
    entry.metadata.map(metadata => metadata.copy(conf = metadata.conf + conf))
  )

  /** Relies on the form of an entry: a line with the version, which is that of the checkpoint's
    * format, and one with JSON. Spark's own reader and writer take the version that the session has.
    */
  def readCommit(in: InputStream): Commit = {
    val lines = Source.fromInputStream(in, UTF_8.name).getLines()
    MetadataVersionUtil.validateVersion(lines.next().trim, 2)
    CommitMetadata(lines.next())
  }

  def writeCommit(session: SparkSession, log: Path, commit: Commit, out: OutputStream): Unit = {
    val version = if (commit.stateUniqueIds.isDefined) 2 else 1
    out.write(s"v$version\n${commit.json}".getBytes(UTF_8))
  }

  def withIds(commit: Commit, ids: Option[Map[Long, Array[Array[String]]]]): Commit =
    commit.copy(stateUniqueIds = ids)
}
