package org.apache.spark.sql.keystate.files

import java.time.Instant

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats, JObject}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.files.KnownProcess

/** The folder `_keystate/owners` of a checkpoint: a list of its owners. Every file in it is written
  * once, and only if the one before it is the last. So the writer of number n + 1 knows that
  * nothing has happened since number n, on any storage that creates a file only if it does not
  * exist.
  *
  * The last file also says whether another checkpoint has the place of this one. That is read only
  * if there is a file `moves`, which is written before the first such file: otherwise the content
  * of these files decides nothing, and a power loss may destroy it without harm.
  */
private[files] final class OwnerFiles(val checkpoint: Path, val files: CheckpointFileManager) {
  import OwnerFiles._

  private implicit val formats: Formats = DefaultFormats
  private val folder = OwnerFiles.folder(checkpoint)

  /** The owner files at the time of the call. */
  def list(): Found = new Found(CheckpointFiles.names(files, folder))

  def file(number: Long): Path = new Path(folder, s"$number")

  /** Says that the run of an owner is over. */
  def ended(number: Long): Path = new Path(folder, s"$number$Ended")

  /** Writes the owner after `last`. False if that one is no longer the last. */
  def append(last: Long, run: String, movedTo: Option[String] = None): Boolean = {
    files.mkdirs(folder)
    val self = KnownProcess.current
    val fields = ("run" -> run) ~ ("host" -> self.host) ~ ("pid" -> self.pid) ~
      ("process_start" -> self.start) ~ ("time" -> Instant.now.toString) ~ ("moved_to" -> movedTo)
    if (movedTo.nonEmpty)
      CheckpointFiles.write(files, new Path(folder, Moves), overwriteIfPossible = true)(_ => ())
    try {
      CheckpointFiles.writeJson(files, file(last + 1), fields, overwriteIfPossible = false)
      true
    } catch { case _: FileAlreadyExistsException => false }
  }

  def writeEnded(number: Long): Unit =
    CheckpointFiles.write(files, ended(number), overwriteIfPossible = true)(_ => ())

  def delete(number: Long): Unit = {
    files.delete(file(number))
    files.delete(ended(number))
  }

  /** None if the file can't be read, for callers that only name the owner. */
  def read(number: Long): Option[Owner] =
    try strictly(number)
    catch { case NonFatal(_) => None }

  private def strictly(number: Long): Option[Owner] =
    CheckpointFiles.readJson(files, file(number))(_.extract[Owner])

  final class Found(names: Seq[String]) {
    val numbers: Seq[Long] = names.flatMap(_.toLongOption)

    /** 0 if there is none. */
    val last: Long = numbers.maxOption.getOrElse(0L)

    /** The checkpoint that has the place of this one. */
    def movedTo: Option[String] =
      Option.when(names.contains(Moves))(last).flatMap(strictly).flatMap(_.moved_to)

    /** For a copy that a promotion made: its original. */
    def successor: Option[Successor] =
      Option.when(names.contains(SuccessorName))(new Path(folder, SuccessorName)).flatMap {
        CheckpointFiles.readJson(files, _)(_.extract[Successor])
      }

    def isEnded(number: Long): Boolean = names.contains(s"$number$Ended")
  }
}

private[keystate] object OwnerFiles {
  private final val Ended = ".ended"
  private final val Moves = "moves"
  private final val SuccessorName = "successor"

  /** The record of a checkpoint that will replace another one, and can be started only once it has
    * its place. Nothing reads it any more once the checkpoint has gone on by itself.
    *
    * @param original
    *   the path of the other one
    * @param query
    *   the id of the query of both
    * @param batch
    *   the last micro-batch of the original that it has
    */
  final case class Successor(original: String, query: String, batch: Long)

  /** An owner of a checkpoint.
    *
    * @param moved_to
    *   the checkpoint that has the place of this one from then on
    */
  final case class Owner(
      run: String,
      host: String,
      pid: Long,
      process_start: Long,
      time: String,
      moved_to: Option[String] = None
  ) {
    def process: KnownProcess = KnownProcess(host, pid, process_start)
    override def toString: String = s"$run (process $pid on $host, since $time)"
  }

  def json(successor: Successor): JObject = CheckpointFiles.withFormat(
    ("original" -> successor.original) ~ ("query" -> successor.query) ~ ("batch" -> successor.batch)
  )

  private def folder(checkpoint: Path) = new Path(checkpoint, "_keystate/owners")

  /** The path of a [[Successor]]'s record, relative to the checkpoint. */
  final val SuccessorFile = s"_keystate/owners/$SuccessorName"
}
