package org.apache.spark.sql.keystate.files

import java.time.Instant

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats, JObject}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.files.KnownProcess

/** The folder `_keystate/owners` of a checkpoint: a list of who took it, of which every file is
  * written once, and only if the one before it is the last. So whoever writes number n + 1 knows that
  * nothing has happened since number n, on any storage that creates a file only if it is not there.
  *
  * The last one also tells whether another checkpoint has the place of this one. It is only asked for
  * that if there is a file `moves`, which is written before the first one that says so: else the
  * content of these files decides nothing, and it does no harm if a power loss takes it.
  */
private[files] final class OwnerFiles(val checkpoint: Path, val files: CheckpointFileManager) {
  import OwnerFiles._

  private implicit val formats: Formats = DefaultFormats
  private val folder = OwnerFiles.folder(checkpoint)

  /** What is there now. */
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

  /** None if the file can't be read, where it only serves to name the owner. */
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

    /** Of a copy that a promotion made: what it was made from. */
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

  /** Of a checkpoint that is made to take the place of another one, and can be started only once it
    * has it. Nothing asks for it any more once it has gone on by itself.
    *
    * @param original
    *   where the other one is
    * @param query
    *   the id of the query of both
    * @param batch
    *   the last micro-batch that it has of the original
    */
  final case class Successor(original: String, query: String, batch: Long)

  /** Who took a checkpoint.
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

  /** Where a [[Successor]] is written, relative to the checkpoint. */
  final val SuccessorFile = s"_keystate/owners/$SuccessorName"
}
