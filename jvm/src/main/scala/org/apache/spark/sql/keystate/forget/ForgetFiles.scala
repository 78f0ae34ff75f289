package org.apache.spark.sql.keystate.forget

import java.util.{Base64, UUID}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Extraction, Formats, JObject, JValue}

import org.apache.spark.sql.keystate.files.CheckpointFiles

/** The folder `_keystate/forget` of a checkpoint. A request is a file `<id>.request`: whoever wants
  * keys forgotten writes it. A claim is a file `<batch>.claim`. If two drivers write a
  * micro-batch's claim, the first file counts: none is ever replaced.
  */
private[keystate] final class ForgetFiles(checkpoint: Path, conf: Configuration) {
  import ForgetFiles._

  private val folder = new Path(checkpoint, "_keystate/forget")
  private lazy val files = CheckpointFiles.create(folder, conf)

  def list(): Listed = {
    val names = CheckpointFiles.names(files, folder)
    Listed(
      names.collect { case Request(id) => id }.toSet,
      names.collect { case Claim(batch) => batch.toLong }.sorted,
      names.contains(OriginName)
    )
  }

  /** The files of another checkpoint. */
  def of(other: String): ForgetFiles = new ForgetFiles(new Path(other), conf)

  /** Notes where this copy comes from: requests that the original gets until the copy has its place
    * are carried out here.
    */
  def writeOrigin(origin: Origin): Unit = {
    files.mkdirs(folder)
    val fields = Extraction.decompose(origin).asInstanceOf[JObject]
    CheckpointFiles.writeJson(files, originFile, fields, overwriteIfPossible = true)
  }

  def origin: Option[Origin] = CheckpointFiles.readJson(files, originFile)(_.extract[Origin])

  def deleteOrigin(): Unit = files.delete(originFile)

  private def originFile = new Path(folder, OriginName)

  /** Writes a request; returns its id. */
  def request(keys: Seq[ForgottenKey]): String = {
    val id = UUID.randomUUID.toString
    addRequest(id, keys)
    id
  }

  /** Writes a request, unless it is there. */
  def addRequest(id: String, keys: Seq[ForgottenKey]): Unit =
    try write(requestFile(id), Nil, keys)
    catch { case _: FileAlreadyExistsException => }

  /** The keys of a request. None if it is not there any more. */
  def keysOf(request: String): Option[Seq[ForgottenKey]] = read(requestFile(request)).map(_._2)

  /** The claim of a micro-batch. None if it is not there any more. */
  def claimOf(batch: Long): Option[ForgetClaim] = read(claimFile(batch)).map {
    case (requests, keys) => ForgetClaim(batch, requests, keys)
  }

  /** Writes a claim, unless the micro-batch has one. Returns the claim that counts. */
  def claim(claim: ForgetClaim): ForgetClaim =
    try {
      write(claimFile(claim.batch), claim.requests, claim.keys)
      claim
    } catch {
      case _: FileAlreadyExistsException => claimOf(claim.batch).getOrElse(this.claim(claim))
    }

  def deleteRequest(id: String): Unit = files.delete(requestFile(id))

  def deleteClaim(batch: Long): Unit = files.delete(claimFile(batch))

  private def requestFile(id: String) = new Path(folder, s"$id.request")

  private def claimFile(batch: Long) = new Path(folder, s"$batch.claim")

  private def write(file: Path, requests: Seq[String], keys: Seq[ForgottenKey]): Unit = {
    files.mkdirs(folder)
    val fields = ("requests" -> requests) ~ ("keys" -> keys.map { key =>
      ("operator" -> key.operator) ~ ("hash" -> key.hash) ~
        ("key" -> Base64.getEncoder.encodeToString(key.bytes))
    })
    CheckpointFiles.writeJson(files, file, fields, overwriteIfPossible = false)
  }

  private def read(file: Path): Option[(Seq[String], Seq[ForgottenKey])] =
    CheckpointFiles.readJson(files, file) { json =>
      ((json \ "requests").extract[Seq[String]], (json \ "keys").children.map(keyOf))
    }
}

private[keystate] object ForgetFiles {
  private implicit val formats: Formats = DefaultFormats
  private final val OriginName = "origin"
  private val Request = """([0-9a-f-]{36})\.request""".r
  private val Claim = """(\d{1,18})\.claim""".r

  /** @param requests
    *   the ids of the requests
    * @param claims
    *   the micro-batches that have claims
    * @param hasOrigin
    *   whether there is an [[Origin]]
    */
  final case class Listed(
      requests: Set[String] = Set.empty,
      claims: Seq[Long] = Nil,
      hasOrigin: Boolean = false
  )

  /** Where a copy comes from that is about to take the place of a checkpoint.
    *
    * @param checkpoint
    *   the path of the original
    * @param batch
    *   the last micro-batch that the copy has of the original
    * @param operators
    *   the operators whose keys are unchanged in the copy, and their numbers there
    */
  final case class Origin(checkpoint: String, batch: Long, operators: Map[String, Long])

  private def keyOf(json: JValue) = ForgottenKey(
    (json \ "operator").extract[Long],
    (json \ "hash").extract[Int],
    Base64.getDecoder.decode((json \ "key").extract[String])
  )
}
