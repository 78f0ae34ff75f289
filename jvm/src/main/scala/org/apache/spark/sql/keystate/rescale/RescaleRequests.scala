package org.apache.spark.sql.keystate.rescale

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats}

import keystate.files.KnownProcess
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}

/** The folder `_keystate/rescale` of a checkpoint. In it, another process asks the driver of an
  * elastic query for another number of partitions. While such a query runs, the file `listener`
  * exists. The requester writes `<id>.request`. The driver writes `<id>.answer` and deletes the
  * request; the requester deletes the answer. Only those who wait for these files depend on them.
  *
  * A request names its requester and the time until which the requester waits. If the requester has
  * ended, or no longer waits, the driver deletes the request without carrying it out: otherwise a
  * later driver would carry out an outdated request. The time is on the requester's clock, so the
  * clocks of both machines must agree to some seconds.
  */
private[keystate] final class RescaleRequests(checkpoint: Path, conf: Configuration) {
  import RescaleRequests._

  private val folder = new Path(checkpoint, "_keystate/rescale")
  private val files = CheckpointFiles.create(folder, conf)
  private val listener = new Path(folder, "listener")

  // The driver's side.

  /** Starts or ends accepting requests. Answers that nobody took are deleted. */
  def listen(isOn: Boolean): Unit =
    if (isOn) {
      names.filter(_.endsWith(".answer")).foreach(name => files.delete(new Path(folder, name)))
      write(listener, "")
    } else files.delete(listener)

  /** The requests without an answer whose askers wait: their ids and numbers of partitions. */
  def waiting: Seq[(String, Int)] = names.collect { case Request(id) => id }.flatMap { id =>
    val asked = wanted(id)
    if (asked.isEmpty) files.delete(file(id, "request"))
    asked.map(id -> _.partitions)
  }

  /** Whether the requester still waits. */
  def isWanted(id: String): Boolean = wanted(id).isDefined

  private def wanted(id: String): Option[Asked] =
    CheckpointFiles.readJson(files, file(id, "request"))(_.extract[Asked]).filter { asked =>
      asked.until > System.currentTimeMillis && asked.asker.mayRun
    }

  /** Answers a request that was not withdrawn. */
  def answer(id: String, answer: String): Unit = if (files.exists(file(id, "request"))) {
    write(file(id, "answer"), answer)
    files.delete(file(id, "request"))
  }

  // The side of who asks.

  /** Asks, and returns the request's id. None if no elastic query runs that could answer.
    *
    * @param goodForMillis
    *   how long this process waits
    */
  def ask(partitions: Int, goodForMillis: Long): Option[String] =
    Option.when(files.exists(listener) && CheckpointOwner.mayBeAlive(checkpoint, conf)) {
      val id = UUID.randomUUID.toString
      val asker = KnownProcess.current
      val fields = ("partitions" -> partitions) ~
        ("until" -> (System.currentTimeMillis + goodForMillis)) ~
        ("asker" -> ("host" -> asker.host) ~ ("pid" -> asker.pid) ~ ("start" -> asker.start))
      files.mkdirs(folder)
      CheckpointFiles.writeJson(files, file(id, "request"), fields, overwriteIfPossible = true)
      id
    }

  /** Takes the answer, if it is there. */
  def takeAnswer(id: String): Option[String] = {
    val answer = read(file(id, "answer"))
    if (answer.isDefined) files.delete(file(id, "answer"))
    answer
  }

  def withdraw(id: String): Unit = files.delete(file(id, "request"))

  private def file(id: String, kind: String) = new Path(folder, s"$id.$kind")

  private def names: Seq[String] = CheckpointFiles.names(files, folder)

  private def write(file: Path, content: String): Unit = {
    files.mkdirs(folder)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(_.write(content.getBytes(UTF_8)))
  }

  private def read(file: Path): Option[String] =
    CheckpointFiles.readIfThere(files, file).map(new String(_, UTF_8))
}

private[keystate] object RescaleRequests {
  private implicit val formats: Formats = DefaultFormats
  private final case class Asked(partitions: Int, until: Long, asker: KnownProcess)
  private val Request = """([0-9a-f-]{36})\.request""".r
}
