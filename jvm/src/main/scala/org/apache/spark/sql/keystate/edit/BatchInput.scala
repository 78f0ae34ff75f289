package org.apache.spark.sql.keystate.edit

import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}
import org.json4s.jackson.JsonMethods.parse
import org.json4s.{JInt, JString}

import org.apache.spark.sql.catalyst.plans.logical._

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.plan.KeyedProcess

/** Makes a checkpoint in which one micro-batch of another checkpoint is pending and nothing has
  * state. A query that starts on it, and whose plan is that before the operator, first runs this
  * micro-batch again: with the same offsets and the same clock. Relies on how Spark restarts.
  *
  * @param target
  *   a folder that is there and empty
  */
private[keystate] final class BatchInput(
    checkpoint: QueryCheckpoint,
    target: Path,
    conf: Configuration
) {
  private val fs = target.getFileSystem(conf)

  def write(batch: Long): Unit = {
    if (!checkpoint.hasOffsets(batch))
      throw KeystateErrors.noBatch(batch, checkpoint.location)
    val logs = Seq(s"offsets/$batch", s"offsets/${batch - 1}", s"commits/${batch - 1}")
    logs.map(new Path(checkpoint.root, _)).filter(checkpoint.files.exists).foreach { file =>
      copy(file, new Path(target, s"${file.getParent.getName}/${file.getName}"))
    }
    val sources = new Path(checkpoint.root, "sources")
    if (checkpoint.files.exists(sources)) copy(sources, new Path(target, "sources"))
    FilesOfBatch.missing(checkpoint, batch, conf).foreach { file =>
      throw KeystateErrors.cannotReplay(s"Batch $batch read the file $file, which is gone.")
    }
    // Another id: the query itself may be running.
    Using.resource(fs.create(new Path(target, "metadata"), true)) { out =>
      out.write(s"""{"id":"${UUID.randomUUID}"}""".getBytes(UTF_8))
    }
  }

  private def copy(from: Path, to: Path): Unit = {
    fs.mkdirs(to.getParent)
    val _ = FileUtil.copy(from.getFileSystem(conf), from, fs, to, false, conf)
  }
}

/** The files that Spark's file source gave to a micro-batch. Spark itself takes one that is gone for
  * empty. Relies on the form of that source's offsets and of its log: a line of JSON for each file.
  */
private object FilesOfBatch {

  /** The first of them that is not there. */
  def missing(checkpoint: QueryCheckpoint, batch: Long, conf: Configuration): Option[String] = {
    val sources = new Path(checkpoint.root, "sources")
    checkpoint.folders(sources).flatMap(_.toIntOption).sorted.iterator.flatMap { source =>
      checkpoint.offsetOf(batch, source).flatMap(logOffset).toSeq.flatMap { last =>
        val before = checkpoint.offsetOf(batch - 1, source).flatMap(logOffset).getOrElse(-1L)
        val log = new Path(sources, s"$source")
        (before + 1 to last).flatMap(files(checkpoint, log, _))
      }
    }
  }.find { file =>
    val path = new Path(new URI(file))
    !path.getFileSystem(conf).exists(path)
  }

  private def logOffset(json: String): Option[Long] = Try(parse(json)).toOption.flatMap {
    _ \ "logOffset" match {
      case JInt(offset) => Some(offset.toLong)
      case _ => None
    }
  }

  /** The files of one entry of the log, which is in the next compacted one if it was deleted. */
  private def files(checkpoint: QueryCheckpoint, log: Path, entry: Long): Seq[String] = {
    val compacted = checkpoint.files.list(log).toSeq.map(_.getPath.getName).collect {
      case s"$number.compact" if number.toLongOption.exists(_ >= entry) => number.toLong
    }
    (new Path(log, s"$entry") +: compacted.sorted.map(n => new Path(log, s"$n.compact")))
      .find(checkpoint.files.exists)
      .toSeq
      .flatMap { file =>
        Using.resource(checkpoint.files.open(file)) { in =>
          for {
            line <- new String(in.readAllBytes(), UTF_8).linesIterator.toSeq.drop(1)
            JString(path) <- Seq(parse(line)).filter(_ \ "batchId" == JInt(entry)).map(_ \ "path")
          } yield path
        }
      }
  }
}

private[keystate] object BatchInput {

  /** Throws if what the rows of a plan are depends on more than a micro-batch's input. */
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
    // Of Spark's Python operators each version has others.
    case other =>
      Seq("TransformWithState", "FlatMapGroupsInPandasWithState").exists(other.nodeName.startsWith)
  }
}
