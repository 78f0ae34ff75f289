package org.apache.spark.sql.keystate.state

import java.nio.charset.StandardCharsets.UTF_8

import keystate.backend.KeyedStateBackend
import keystate.checkpoint.OperatorState
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
    *   whether it has union lists, which have the elements of all subtasks
    */
  def restored(unions: Boolean, readAll: () => Seq[OperatorState]): Option[OperatorState] =
    state.map(own => if (unions) OperatorState.withUnions(own, readAll()) else own)

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
