package org.apache.spark.sql.keystate.checkpoint

import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats, JValue}

import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.files.CheckpointOwner
import org.apache.spark.sql.keystate.forget.{ForgetFiles, ForgottenKey, StoredKey}
import org.apache.spark.sql.keystate.metadata.RecordedStates
import org.apache.spark.sql.keystate.spec.{StoredTypes, SystemColumnFamilies}

/** Requests that keys be forgotten, by the query's present or next run, and finds the data that is
  * left of them. Without a Spark job.
  *
  * @param operator
  *   the number of the only operator that should forget; None for all
  */
private[keystate] final class KeyRequests(checkpoint: QueryCheckpoint, operator: Option[Long]) {
  private implicit val formats: Formats = DefaultFormats
  private val last = checkpoint.batch(checkpoint.lastBatch)

  /** The operators that have state by key, with their key's columns. */
  private val keyed: Seq[(Long, StructType)] = {
    val (own, others) = checkpoint.operators.partition(checkpoint.record(_).isDefined)
    operator match {
      case Some(id) if !own.contains(id) =>
        val there = own.map(one => s"operator $one: ${checkpoint.operatorName(one)}")
        throw KeystateErrors.noSuchOperator(checkpoint.location, operator, there)
      case None if others.nonEmpty =>
        throw KeystateErrors.cannotForget(
          s"operator ${others.head} (${checkpoint.operatorName(others.head)}) is one of Spark's, " +
            "whose state by key only Spark knows. Name an operator of Keystate's by operator= (on " +
            s"the command line --operator): ${own.mkString(", ")}"
        )
      case _ =>
    }
    own.filter(id => operator.forall(_ == id)).flatMap(keyOf)
  }

  /** The columns of an operator's key. None if it has no state by key. */
  private def keyOf(id: Long): Option[(Long, StructType)] = {
    val families = checkpoint.manifest(last, id, 0, StoreLocation.DefaultStore).families
    if (families.exists(_.name == SystemColumnFamilies.RawKeyedName))
      throw KeystateErrors.cannotForget(
        s"operator $id has raw keyed state: of such a stream only its function knows what is a " +
          "key's. Let the function forget the key, when a row tells it"
      )
    Option.when(families.exists(RecordedStates.isByKey))(id -> checkpoint.keySchema(id, families))
  }

  def describe: JValue = keyed.map { case (id, schema) =>
    ("operator" -> id) ~ ("name" -> checkpoint.operatorName(id)) ~
      ("key" -> StoredTypes.parse(schema.json, "key").json)
  }

  /** Writes a request.
    *
    * @param keys
    *   `operator` and `key`, a row with the key's columns, as an Arrow stream in Base64
    */
  def write(keys: JValue): JValue = {
    val id = new ForgetFiles(checkpoint.root, checkpoint.conf).request(parsed(keys))
    // Another checkpoint may have taken its place meanwhile, see Promotion.
    CheckpointOwner.checkFinished(checkpoint.root, checkpoint.files)
    "request" -> id
  }

  /** The places where data of a key is left: files, with the versions that list them, requests and
    * claims. It reads every file of the operators' state.
    *
    * @param keys
    *   as for `write`
    */
  def traces(keys: JValue): JValue = {
    val wanted = parsed(keys)
    val asked = new ForgetFiles(checkpoint.root, checkpoint.conf)
    val listed = asked.list()
    def has(keys: Seq[ForgottenKey]) = keys.exists(key => wanted.exists(_.isSame(key)))
    ("version" -> last.version) ~
      ("requests" -> listed.requests.toSeq.filter(asked.keysOf(_).exists(has))) ~
      ("claims" -> listed.claims.filter(asked.claimOf(_).exists(claim => has(claim.keys)))) ~
      ("files" -> wanted.flatMap(filesWith))
  }

  private def filesWith(key: ForgottenKey): Seq[JValue] = {
    val group = KeyGroups.groupOf(key.hash, checkpoint.record(key.operator).get.maxParallelism)
    val folders = checkpoint.folders(checkpoint.operatorFolder(key.operator))
    val found = for {
      partition <- folders.flatMap(_.toIntOption).sorted
      (file, versions) <- checkpoint
        .reader(key.operator, partition, StoreLocation.DefaultStore)
        .filesWith(group)(StoredKey.isOf(key.bytes))
    } yield file -> versions
    // After a rescale several partitions list the same file.
    found.groupMap(_._1)(_._2).toSeq.sortBy(_._1).map { case (file, versions) =>
      ("operator" -> key.operator) ~ ("file" -> s"state/${key.operator}/$file") ~
        ("versions" -> versions.flatten.distinct.sorted)
    }
  }

  private def parsed(keys: JValue): Seq[ForgottenKey] = {
    val schemas = keyed.toMap
    keys.children.map { given =>
      val id = (given \ "operator").extract[Long]
      val key = StoredState.row((given \ "key").extract[String], schemas(id))
      ForgottenKey(id, StoredState.hash(key, schemas(id)), key.getBytes)
    }
  }
}
