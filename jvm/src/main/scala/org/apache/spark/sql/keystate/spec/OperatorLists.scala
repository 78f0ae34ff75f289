package org.apache.spark.sql.keystate.spec

import org.json4s.JsonAST.{JField, JObject}
import org.json4s.jackson.JsonMethods.{compact, parse}

import keystate.backend.StateFamily
import keystate.checkpoint.OperatorState
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.StoredOrder

/** The types of the lists of operator state, as a version keeps them. */
private[keystate] object OperatorLists {
  private val Types = "types"

  /** JSON of the element types of lists, by name. None if there are none. */
  def types(lists: Seq[StateSpec]): Option[String] = {
    val types = lists.map(list => list.name -> parse(SchemaEvolution.bare(list.valueType).json))
    Option.when(types.nonEmpty)(compact(JObject(types: _*)))
  }

  /** The properties of the operator state's family. */
  def properties(types: Option[String]): Map[String, String] =
    Map("kind" -> "operator_state") ++ types.map(Types -> _)

  /** The declared lists, and those that the function no longer gets, which are kept. Throws if a
    * list's old elements can't be read as its new type. The worker itself reads elements of an
    * older type.
    */
  def continuing(declared: Seq[StateSpec], recorded: Option[StateFamily]): Seq[StateSpec] = {
    val types = recorded.flatMap(_.properties.get(Types)).fold(List.empty[JField]) { json =>
      StoredTypes.reading(OperatorState.FamilyName)(parse(json).asInstanceOf[JObject].obj)
    }
    val before = types.map { case (name, json) =>
      val elements = StoredTypes.parse(compact(json), name)
      StateSpec(name, StateKind.List, "list", elements, None, StoredOrder.Natural)
    }
    declared.foreach { list =>
      for {
        old <- before.find(_.name == list.name)
        reason <- SchemaEvolution.check(old.valueType, list.valueType)
      } throw KeystateErrors.stateChanged(list.name, old.describe, list.describe, reason)
    }
    declared ++ before.filterNot(old => declared.exists(_.name == old.name))
  }
}
