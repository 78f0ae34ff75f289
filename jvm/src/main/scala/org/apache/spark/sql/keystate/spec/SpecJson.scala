package org.apache.spark.sql.keystate.spec

import org.json4s.JsonAST.{JNothing, JValue}

import keystate.errors.KeystateErrors

/** What Python declares. It says everything, for package and jar are of one release.
  *
  * @param what
  *   what it declares, for messages
  */
private[spec] final class SpecJson(what: String, json: JValue) {

  /** Throws if it is not there; what is null says that there is none. */
  def field(name: String): JValue = json \ name match {
    case JNothing => throw KeystateErrors.fieldMissing(what, name)
    case found => found
  }
}
