package org.apache.spark.sql.keystate.spec

import scala.util.control.NonFatal

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.types.{DataType, UserDefinedType}
import org.apache.spark.util.Utils

import keystate.errors.{KeystateErrors, KeystateException}

/** The types in a checkpoint, in JSON. The JSON of a user defined type names a class, and Spark
  * would make an object of any class. So `parse` checks first that it is a type. A type defined in
  * Python is a pickle, which Keystate never writes.
  */
private[keystate] object StoredTypes {

  /** The type. Throws if the JSON can't be understood.
    *
    * @param state
    *   the state whose type it is, for messages
    */
  def parse(json: String, state: String): DataType = reading(state) {
    check(JsonMethods.parse(json))
    DataType.fromJson(json)
  }

  /** Throws an error that names the state if the checkpoint's record of it can't be read. */
  def reading[T](state: String)(read: => T): T =
    try read
    catch {
      case e: KeystateException => throw e
      case NonFatal(e) => throw KeystateErrors.damagedState(state, e)
    }

  private def check(json: JValue): Unit = json match {
    case JObject(fields) =>
      if (fields.contains(JField("type", JString("udt")))) json \ "class" match {
        case JString(name) if isType(name) =>
        case other => throw new IllegalArgumentException(s"$other is no type")
      }
      fields.foreach { case (_, value) => check(value) }
    case JArray(elements) => elements.foreach(check)
    case _ =>
  }

  private def isType(name: String): Boolean =
    classOf[UserDefinedType[_]].isAssignableFrom(Utils.classForName[Any](name, initialize = false))
}
