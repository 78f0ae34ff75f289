package org.apache.spark.sql.keystate

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.{JField, JObject, JString}
import org.json4s.jackson.JsonMethods.{compact, parse}

import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.{KeyedStateBackend, StateFamily}
import keystate.checkpoint.OperatorState
import keystate.keygroup.KeyGroups

/** A subtask's operator state in its backend, and the tag of the function instance that it is from: a
  * worker whose instance has that tag goes on with it, any other begins with a new one.
  */
private[keystate] final class OperatorStateStore(
    family: Int,
    backend: KeyedStateBackend,
    maxParallelism: Int
) {
  private val group = KeyGroups.operatorGroup(maxParallelism)

  /** Empty while there is no state, and after a rescale. */
  def tag: String = get(OperatorState.TagKey).fold("")(new String(_, UTF_8))

  /** What a new instance begins with.
    *
    * @param unions
    *   whether it has union lists: they are those of all subtasks
    */
  def restored(unions: Boolean, readAll: () => Seq[OperatorState]): Option[OperatorState] =
    state.map(own => if (unions) OperatorState.withUnions(own, readAll()) else own)

  private def state: Option[OperatorState] = get(OperatorState.StateKey).map { json =>
    StoredTypes.reading(OperatorState.FamilyName)(OperatorState.fromJson(json))
  }

  private def get(key: Array[Byte]) = Option(backend.get(family, group, key))

  /** Takes what the worker says with its last answer; whether this is the one. */
  def receive(column: String => ArrowColumnVector): Boolean = {
    val state = column("operator_state")
    val last = !state.isNullAt(0)
    if (last) put(state.getBinary(0), new String(column("operator_tag").getBinary(0), UTF_8))
    last
  }

  /** Stores a snapshot under its tag.
    *
    * @param state
    *   as [[OperatorState.toJson]] makes it
    */
  def put(state: Array[Byte], tag: String): Unit = {
    backend.put(family, group, OperatorState.StateKey, state)
    backend.put(family, group, OperatorState.TagKey, tag.getBytes(UTF_8))
  }
}

private[keystate] object OperatorStateStore {
  private val Types = "types"

  /** What a version keeps of the operator state: the types of its lists' elements, by name. */
  def properties(lists: Seq[StateSpec]): Map[String, String] = {
    val types = lists.map(list => list.name -> parse(SchemaEvolution.bare(list.valueType).json))
    Map("kind" -> "operator_state") ++
      Option.when(types.nonEmpty)(Types -> compact(JObject(types: _*)))
  }

  /** The lists, and those that the function no longer asks for: they are kept. The worker reads the
    * elements of an older type itself.
    */
  def continuing(declared: Seq[StateSpec], recorded: Option[StateFamily]): Seq[StateSpec] = {
    val types = recorded.flatMap(_.properties.get(Types)).fold(List.empty[JField]) { json =>
      StoredTypes.reading(OperatorState.FamilyName)(parse(json).asInstanceOf[JObject].obj)
    }
    val before = types.map { case (name, json) =>
      val elements = StoredTypes.parse(compact(json), name)
      StateSpec(name, StateKind.List, "list", elements, None, KeyOrder.Natural)
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

/** Answers a new function instance's question for its operator state. */
private[keystate] final class OperatorStateQuestions(
    own: OperatorStateStore,
    readAll: () => Seq[OperatorState],
    others: StateServer.Answerer
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
    (question \ "op").extract[String] match {
      case "operator_state" =>
        val unions = (question \ "unions").extract[Boolean]
        val restored = own.restored(unions, readAll)
        val json = restored.fold("")(state => new String(OperatorState.toJson(state), UTF_8))
        (JObject("state" -> JString(json)), Array.emptyByteArray)
      case _ => others(question, data)
    }
}
