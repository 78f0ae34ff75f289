package org.apache.spark.sql.keystate.checkpoint

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.errors.KeystateException
import org.apache.spark.sql.keystate.files.{CheckpointFiles, SparkFiles}
import org.apache.spark.sql.keystate.metadata.SparkStoreMetadata

/** A new checkpoint that is made from another one. It is written to a folder next to its final
  * place, and that folder is then renamed. So it appears whole, if the file system renames a folder
  * in one step.
  *
  * @param exists
  *   makes the error for a place where something is already
  */
private[keystate] final class CheckpointDraft(
    source: QueryCheckpoint,
    target: Path,
    conf: Configuration,
    exists: String => KeystateException
) {
  private implicit val formats: Formats = DefaultFormats
  private val fs = target.getFileSystem(conf)

  val root = new Path(target.getParent, s".${target.getName}.${UUID.randomUUID}")

  /** Writes and renames. If anything fails, nothing is left behind. */
  def write(body: => Unit): Unit = {
    if (fs.exists(target) && fs.listStatus(target).nonEmpty) throw exists(target.toString)
    try {
      body
      fs.delete(target, true) // if it is there, it is empty
      if (!fs.rename(root, target)) throw exists(target.toString)
    } finally {
      fs.delete(root, true)
      ()
    }
  }

  /** Copies those of the named files that exist. */
  def copy(names: Seq[String]): Unit =
    names.distinct.filter(name => source.files.exists(path(name))).foreach { name =>
      // Names are checked where they are read; this makes sure that nothing is written outside of
      // the copy.
      require(!name.split('/').contains(".."), s"$name is outside of the checkpoint")
      val from = path(name)
      FileUtil.copy(from.getFileSystem(conf), from, fs, new Path(root, name), false, conf)
    }

  /** Copies what describes the state, but not the state: records, metadata and schemas. */
  def copyMetadata(): Unit = {
    val described = source.operators
      .flatMap(operator => below(s"state/$operator"))
      .filter(_.split('/').dropRight(1).exists(_.startsWith("_")))
    val (placed, plain) = described.partition(_.contains("/_metadata/v2/"))
    copy(plain)
    placed
      .filter(name => new Path(name).getName.toLongOption.isDefined)
      .foreach(name => put(name, moved(name)))
  }

  /** All files below a folder, relative to the checkpoint. */
  def below(folder: String): Seq[String] = source.filesBelow(path(folder)).map { status =>
    source.root.toUri.relativize(status.getPath.toUri).getPath
  }

  /** A file of Spark's operator metadata with its paths changed to the new place. Its second line
    * names the state schema files by paths that contain the checkpoint's place.
    */
  private def moved(name: String): String = {
    val file = path(name)
    val state = new Path(target, "state")
    val operator = name.stripPrefix("state/").takeWhile(_ != '/').toLong
    SparkFiles.reading(file) {
      val text = Using.resource(source.files.open(file)) { in =>
        new String(in.readAllBytes(), UTF_8)
      }
      val (version, metadata) = text.splitAt(text.indexOf('\n') + 1)
      val placed = parse(metadata).transformField {
        case JField("stateSchemaFilePaths", JArray(files)) =>
          val here = files.map { schema =>
            JString(SparkStoreMetadata.schemaFile(schema.extract[String], operator, state).toString)
          }
          JField("stateSchemaFilePaths", JArray(here))
      }
      version + compact(render(placed))
    }
  }

  private def put(name: String, content: String): Unit = {
    val file = new Path(root, name)
    val files = CheckpointFileManager.create(file.getParent, conf)
    files.mkdirs(file.getParent)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(
      _.write(content.getBytes(UTF_8))
    )
  }

  private def path(name: String): Path = new Path(source.root, name)
}
