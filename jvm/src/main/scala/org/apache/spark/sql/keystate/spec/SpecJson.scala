package org.apache.spark.sql.keystate.spec

import org.json4s.JsonAST.{JNothing, JValue}

import keystate.errors.KeystateErrors

/** A declaration from Python. It is complete, because package and jar are of one release.
  *
  * @param what
  *   the declared thing, for messages
  */
private[keystate] final class SpecJson(what: String, json: JValue) {

  /** Throws if the field is missing; null means that there is no value. */
  def field(name: String): JValue = json \ name match {
    case JNothing => throw KeystateErrors.fieldMissing(what, name)
    case found => found
  }
}
