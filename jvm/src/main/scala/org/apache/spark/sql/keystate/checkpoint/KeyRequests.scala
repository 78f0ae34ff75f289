package org.apache.spark.sql.keystate.checkpoint

import org.json4s.{DefaultFormats, Formats, JValue}
import org.json4s.JsonDSL._

import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import keystate.files.StoreLocation
import org.apache.spark.sql.keystate.forget.{ForgetFiles, ForgottenKey}
import org.apache.spark.sql.keystate.spec.{OwnFamilies, StoredTypes}
import org.apache.spark.sql.keystate.store.KeystateCodec

/** Asks that keys be forgotten, by whatever run of the query comes to it. Without a Spark job.
  *
  * @param operator
  *   the number of the only operator that is to forget; None for all
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
    if (families.exists(_.name == OwnFamilies.RawKeyedName))
      throw KeystateErrors.cannotForget(
        s"operator $id has raw keyed state: of such a stream only its function knows what is a " +
          "key's. Let the function forget the key, when a row tells it"
      )
    val hasKeys = families.exists(family =>
      KeystateCodec.owns(family) || OwnFamilies.timerKey(family).isDefined
    )
    Option.when(hasKeys)(id -> checkpoint.keySchema(id, last.number, families))
  }

  def describe: JValue = keyed.map { case (id, schema) =>
    ("operator" -> id) ~ ("name" -> checkpoint.operatorName(id)) ~
      ("key" -> StoredTypes.parse(schema.json, "key").json)
  }

  /** Writes a request.
    *
    * @param keys
    *   `operator` and `key`, which is a row with the key's columns, as an Arrow stream in Base64
    */
  def write(keys: JValue): JValue = {
    val schemas = keyed.toMap
    val forgotten = keys.children.map { given =>
      val id = (given \ "operator").extract[Long]
      val key = StoredState.row((given \ "key").extract[String], schemas(id))
      ForgottenKey(id, StoredState.hash(key, schemas(id)), key.getBytes)
    }
    "request" -> new ForgetFiles(checkpoint.root, checkpoint.conf).request(forgotten)
  }
}
