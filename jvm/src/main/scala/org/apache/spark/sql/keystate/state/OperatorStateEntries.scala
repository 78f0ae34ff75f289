package org.apache.spark.sql.keystate.state

import java.nio.charset.StandardCharsets.UTF_8

import keystate.backend.KeyedStateBackend
import keystate.checkpoint.{OperatorState, RestoredOperatorState}
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.spec.StoredTypes

/** A subtask's operator state in its backend, and the tag of the function instance that it is from.
  * A worker that has the instance with that tag goes on with it. Any other begins with a new
  * instance.
  */
private[keystate] final class OperatorStateEntries(
    family: Int,
    backend: KeyedStateBackend,
    maxParallelism: Int
) {
  private val group = KeyGroups.operatorGroup(maxParallelism)

  /** Empty while there is no state, and after a rescale. */
  def tag: String = get(OperatorState.TagKey).fold("")(new String(_, UTF_8))

  /** The state that a new instance begins with. None if there is none.
    *
    * @param unions
    *   the names of its union lists
    * @param readAll
    *   reads the state of all subtasks, if there are union lists
    */
  def restored(
      unions: Set[String],
      readAll: () => Seq[OperatorState]
  ): Option[RestoredOperatorState] = state.map { own =>
    val all = if (unions.isEmpty) Nil else readAll()
    RestoredOperatorState(own, OperatorState.collectAll(all, unions))
  }

  private def state: Option[OperatorState] = get(OperatorState.StateKey).map { json =>
    StoredTypes.reading(OperatorState.FamilyName)(OperatorState.fromJson(json))
  }

  private def get(key: Array[Byte]) = Option(backend.get(family, group, key))

  /** Stores a snapshot under its tag.
    *
    * @param state
    *   in the format of [[OperatorState.toJson]]
    */
  def put(state: Array[Byte], tag: String): Unit = {
    backend.put(family, group, OperatorState.StateKey, state)
    backend.put(family, group, OperatorState.TagKey, tag.getBytes(UTF_8))
  }
}
