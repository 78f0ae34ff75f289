package org.apache.spark.sql.keystate.edit

import java.io.FileNotFoundException
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.NoSuchFileException
import java.util.{HashMap, UUID}

import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.json4s.jackson.JsonMethods.parse
import org.json4s.{JInt, JString}

import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import keystate.errors.KeystateErrors
import keystate.files.Concurrently
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.plan.KeyedProcess

/** Makes a checkpoint in which one micro-batch of another checkpoint is pending and nothing has
  * state. A query that starts on it, with the plan below the operator, first runs this micro-batch
  * again: with the same offsets and the same clock. Relies on how Spark restarts.
  *
  * @param target
  *   an existing, empty folder
  */
private[keystate] final class BatchInput(
    checkpoint: QueryCheckpoint,
    target: Path,
    conf: Configuration
) {
  import BatchInput._
  private val fs = target.getFileSystem(conf)

  def write(batch: Long): Unit = {
    if (!checkpoint.hasOffsets(batch))
      throw KeystateErrors.noBatch(batch, checkpoint.location)
    val logs = Seq(s"offsets/$batch", s"offsets/${batch - 1}", s"commits/${batch - 1}")
    Concurrently.map(logs ++ ofSources)(copy): Unit
    FilesOfBatch.missing(checkpoint, batch, new Path(target, Sources), conf).foreach { file =>
      throw KeystateErrors.cannotReplay(s"Batch $batch read the file $file, which is gone.")
    }
    // Another id: the query itself may be running.
    Using.resource(fs.create(new Path(target, "metadata"), true)) { out =>
      out.write(s"""{"id":"${UUID.randomUUID}"}""".getBytes(UTF_8))
    }
  }

  /** The files of the sources, by their paths in the checkpoint. */
  private def ofSources: Seq[String] = {
    val folder = new Path(checkpoint.root, Sources)
    checkpoint.filesBelow(folder).map(_.getPath).filterNot(_.getName.endsWith(".crc")).map { path =>
      val names = Iterator.iterate(path)(_.getParent).take(path.depth - folder.depth).map(_.getName)
      (Sources +: names.toSeq.reverse).mkString("/")
    }
  }

  /** Copies a file, if it is there. */
  private def copy(file: String): Unit =
    try
      Using.resource(checkpoint.files.open(new Path(checkpoint.root, file))) { in =>
        Using.resource(fs.create(new Path(target, file), true))(in.transferTo(_)): Unit
      }
    catch { case _: FileNotFoundException | _: NoSuchFileException => }
}

/** The files that Spark's file source gave to a micro-batch. Spark itself treats a missing file as
  * empty. Relies on the form of that source's offsets and of its log: a line of JSON for each file.
  */
private object FilesOfBatch {

  /** The first missing file.
    *
    * @param logs
    *   a copy of the sources' files
    */
  def missing(
      checkpoint: QueryCheckpoint,
      batch: Long,
      logs: Path,
      conf: Configuration
  ): Option[String] = {
    val fs = logs.getFileSystem(conf)
    val read =
      for {
        source <- names(fs, logs).flatMap(_.toIntOption).sorted
        last <- checkpoint.offsetOf(batch, source).flatMap(logOffset).toSeq
        before = checkpoint.offsetOf(batch - 1, source).flatMap(logOffset).getOrElse(-1L)
        entry <- before + 1 to last
        file <- files(fs, new Path(logs, s"$source"), entry)
      } yield file
    read.zip(Concurrently.map(read)(isThere(_, conf))).collectFirst { case (file, false) => file }
  }

  private def isThere(file: String, conf: Configuration): Boolean = {
    val path = new Path(new URI(file))
    path.getFileSystem(conf).exists(path)
  }

  private def names(fs: FileSystem, folder: Path): Seq[String] =
    if (fs.exists(folder)) fs.listStatus(folder).toSeq.map(_.getPath.getName) else Nil

  private def logOffset(json: String): Option[Long] = Try(parse(json)).toOption.flatMap {
    _ \ "logOffset" match {
      case JInt(offset) => Some(offset.toLong)
      case _ => None
    }
  }

  /** The files of one entry of the log; a deleted entry is in the next compacted one. */
  private def files(fs: FileSystem, log: Path, entry: Long): Seq[String] = {
    val compacted = names(fs, log).collect {
      case s"$number.compact" if number.toLongOption.exists(_ >= entry) => number.toLong
    }
    (new Path(log, s"$entry") +: compacted.sorted.map(n => new Path(log, s"$n.compact")))
      .find(fs.exists)
      .toSeq
      .flatMap { file =>
        Using.resource(fs.open(file)) { in =>
          for {
            line <- new String(in.readAllBytes(), UTF_8).linesIterator.toSeq.drop(1)
            JString(path) <- Seq(parse(line)).filter(_ \ "batchId" == JInt(entry)).map(_ \ "path")
          } yield path
        }
      }
  }
}

private[keystate] object BatchInput {
  private val Sources = "sources"

  /** The option of sources that can lose rows: those of Kafka and of Delta Lake. */
  private val FailOnDataLoss = "failOnDataLoss"

  /** The plan with sources that fail if rows are gone, including sources that may leave them out.
    */
  def withoutLoss(plan: LogicalPlan): LogicalPlan = plan.transform {
    case source: StreamingRelationV2 if source.extraOptions.containsKey(FailOnDataLoss) =>
      val options = new HashMap[String, String](source.extraOptions.asCaseSensitiveMap)
      options.keySet.removeIf(_.equalsIgnoreCase(FailOnDataLoss))
      options.put(FailOnDataLoss, "true")
      source.copy(extraOptions = new CaseInsensitiveStringMap(options))
  }

  /** Throws if a plan's rows depend on more than a micro-batch's input. */
  def check(plan: LogicalPlan): Unit =
    plan.collectFirst { case node if node.isStreaming && hasState(node) => node }.foreach { node =>
      throw KeystateErrors.cannotReplay(
        s"Before the operator is another one with state, ${node.nodeName}: what that gave the " +
          "operator in a batch is not in the checkpoint. Replay the operator with state that comes " +
          "first."
      )
    }

  private def hasState(node: LogicalPlan): Boolean = node match {
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _: Aggregate | _: Distinct | _: Deduplicate | _: DeduplicateWithinWatermark |
        _: GlobalLimit | _: FlatMapGroupsWithState | _: KeyedProcess =>
      true
    // Each version of Spark has other Python operators.
    case other =>
      Seq("TransformWithState", "FlatMapGroupsInPandasWithState").exists(other.nodeName.startsWith)
  }
}
