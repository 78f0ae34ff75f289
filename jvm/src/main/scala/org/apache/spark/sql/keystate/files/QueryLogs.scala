package org.apache.spark.sql.keystate.files

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, FileNotFoundException, InputStream, OutputStream
}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.NoSuchFileException
import java.util.Arrays

import scala.io.Source
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JString
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset

import keystate.errors.{KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.shim.LogEntries

/** The offset log and the commit log of a query. Spark itself never replaces their entries. The
  * error for a damaged entry names its file. Reading needs no session, and makes no folders.
  *
  * Relies on the forms of Spark's log entries: a line with their version, one with JSON, and in the
  * offset log a line for each source. A version that Spark does not know is an error.
  */
private[keystate] object QueryLogs {

  /** The version of the offset log in which each line names its source. */
  private final val WithNamedSources = 2

  /** The line of a source that had nothing to read yet. */
  private final val NoOffset = "-"

  def offsets(conf: Configuration, checkpoint: Path): OffsetEntries =
    new OffsetEntries(new Path(checkpoint, "offsets"), conf)

  def commits(conf: Configuration, checkpoint: Path): CommitEntries =
    new CommitEntries(new Path(checkpoint, "commits"), conf)

  /** The id of a checkpoint's query. None if there is no checkpoint. */
  def query(checkpoint: Path, files: CheckpointFileManager): Option[String] = {
    val metadata = new Path(checkpoint, "metadata")
    CheckpointFiles.readIfThere(files, metadata).map { json =>
      SparkFiles.reading(metadata) {
        val JString(query) = parse(new String(json, UTF_8)) \ "id": @unchecked
        query
      }
    }
  }

  /** The entries of one log. */
  sealed abstract class Entries[T <: AnyRef](folder: Path, conf: Configuration) {
    protected lazy val files: CheckpointFileManager = CheckpointFiles.ofRun(folder, conf)

    /** The micro-batches that have an entry, ascending. */
    def batches: Seq[Long] = listed.map(_._1).sorted

    private def listed: Seq[(Long, Long)] =
      try
        for {
          status <- files.list(folder).toSeq if status.isFile
          batch <- status.getPath.getName.toLongOption
        } yield batch -> status.getModificationTime
      catch { case _: FileNotFoundException => Nil }

    def get(batch: Long): Option[T] = naming(batch) {
      try Some(Using.resource(files.open(file(batch)))(parse))
      catch { case _: FileNotFoundException | _: NoSuchFileException => None }
    }

    /** The errors of the entries that can't be read, with their micro-batches in order. */
    def damaged: Seq[(Long, KeystateException)] = batches.flatMap { batch =>
      try {
        get(batch)
        None
      } catch { case e: KeystateException => Some(batch -> e) }
    }

    def latest: Option[(Long, T)] = batches.lastOption.flatMap(batch => get(batch).map(batch -> _))

    /** When the entries were written, in ms since the epoch, by the file system's clock. */
    def writtenAt: Map[Long, Long] = listed.toMap

    protected def parse(in: InputStream): T

    protected def file(batch: Long): Path = new Path(folder, s"$batch")

    protected def naming[R](batch: Long)(read: => R): R =
      try read
      catch {
        case e: KeystateException => throw e
        case NonFatal(e) => throw KeystateErrors.damagedLog(s"${file(batch)}", e)
      }

    /** Replaces an entry by one that is written whole. At any time either the old or the new one
      * exists.
      */
    protected def write(batch: Long)(content: OutputStream => Unit): Unit = {
      if (!files.exists(folder)) files.mkdirs(folder)
      val bytes = new ByteArrayOutputStream
      content(bytes)
      CheckpointFiles.write(files, file(batch), overwriteIfPossible = true)(bytes.writeTo)
      // A file manager may silently keep the old file, so read it back.
      val written = Using.resource(files.open(file(batch)))(_.readAllBytes())
      if (!Arrays.equals(written, bytes.toByteArray))
        throw KeystateErrors.cannotReplace(s"${file(batch)}")
    }
  }

  final class OffsetEntries(folder: Path, conf: Configuration)
      extends Entries[LogEntries.Offsets](folder, conf) {

    /** The number of partitions with which a micro-batch was started, if its entry has it. */
    def partitions(batch: Long): Option[Int] = get(batch).flatMap(partitions(batch, _))

    def partitions(batch: Long, entry: LogEntries.Offsets): Option[Int] =
      naming(batch)(OffsetEntry.partitions(entry))

    /** Writes it as Spark does, whose own writer needs a session. */
    def replace(batch: Long, entry: LogEntries.Offsets): Unit = write(batch) { out =>
      val metadata = LogEntries.metadata(entry)
      val version = s"v${LogEntries.version(entry)}"
      val offsets = LogEntries.offsetLines(entry, NoOffset)
      val lines = Seq(version, metadata.fold("")(_.json)) ++ offsets
      out.write(lines.mkString("\n").getBytes(UTF_8))
    }

    /** Makes a micro-batch of another checkpoint the pending one here. Its number of partitions is
      * that of the micro-batch before it here: the other checkpoint may have been rescaled.
      */
    def begin(batch: Long, entry: LogEntries.Offsets): Unit = {
      val own = partitions(batch - 1)
      replace(batch, own.fold(entry)(OffsetEntry.withPartitions(entry, _)))
    }

    override protected def parse(in: InputStream): LogEntries.Offsets = {
      val lines = Source.fromInputStream(in, UTF_8.name).getLines()
      if (!lines.hasNext) throw new IllegalStateException("there is nothing in it")
      val version = MetadataVersionUtil.validateVersion(lines.next(), LogEntries.OffsetVersion)
      val metadata = lines.next().trim
      if (version < WithNamedSources)
        OffsetSeq(
          lines.map(offset).toVector,
          Option.when(metadata.nonEmpty)(known(OffsetSeqMetadata(metadata)))
        )
      else
        LogEntries.namedOffsets(
          lines.map { line =>
            val at = line.indexOf(':')
            if (at < 0) throw new IllegalStateException("it has an offset without a source")
            line.take(at) -> offset(line.drop(at + 1))
          }.toMap,
          metadata
        )
    }

    private def offset(json: String): Option[SerializedOffset] =
      Option.when(json != NoOffset)(SerializedOffset(json))
  }

  final class CommitEntries(folder: Path, conf: Configuration)
      extends Entries[LogEntries.Commit](folder, conf) {

    /** The note stays, or is that of the log that the entry is from. */
    def replace(
        session: SparkSession,
        batch: Long,
        entry: LogEntries.Commit,
        from: CommitEntries = this
    ): Unit = {
      val kept = from.note(batch)
      write(batch) { out =>
        LogEntries.writeCommit(session, folder, entry, out)
        kept.foreach(text => out.write(CommitNotes.line(text)))
      }
    }

    /** What a sink noted with the micro-batch, see [[CommitNotes]]. */
    def note(batch: Long): Option[String] = naming(batch) {
      CheckpointFiles.readIfThere(files, file(batch)).flatMap(CommitNotes.noteOf)
    }

    /** Spark itself takes an entry that ends after its first line for one without ids and watermark.
      */
    override protected def parse(in: InputStream): LogEntries.Commit = {
      val bytes = in.readAllBytes()
      if (!new String(bytes, UTF_8).linesIterator.drop(1).exists(_.nonEmpty))
        throw new IllegalStateException("it is cut off")
      known(LogEntries.readCommit(new ByteArrayInputStream(bytes)))
    }
  }

  /** The parsed value; the JSON `null` parses to nothing. */
  private def known[T <: AnyRef](parsed: T): T =
    if (parsed == null) throw new IllegalStateException("there is nothing in it") else parsed
}
