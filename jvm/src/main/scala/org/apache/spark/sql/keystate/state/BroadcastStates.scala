package org.apache.spark.sql.keystate.state

import java.nio.charset.StandardCharsets.UTF_8

import keystate.backend.KeyedStateBackend
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.spec.{StateSpec, SystemColumnFamilies}

/** A subtask's broadcast states. Their entries are in the operator group, together with a tag,
  * which changes whenever broadcast elements were processed. A worker that holds the states under
  * the same tag has exactly the stored entries, and need not receive them.
  *
  * @param families
  *   the backend's ids of the families, by name
  */
private[keystate] final class BroadcastStates(
    specs: Seq[StateSpec],
    families: Map[String, Int],
    backend: KeyedStateBackend,
    maxParallelism: Int
) {
  private val group = KeyGroups.operatorGroup(maxParallelism)
  private val tagFamily = families(SystemColumnFamilies.BroadcastTag)
  private val tagKey = Array.emptyByteArray

  val states: Seq[BroadcastEntries] = specs.map { spec =>
    new BroadcastEntries(spec, FamilyEntries(spec, families(spec.name), backend), group)
  }

  /** The tag. Empty before the first broadcast element. */
  def tag: String =
    Option(backend.get(tagFamily, group, tagKey)).fold("")(new String(_, UTF_8))

  def tag_=(tag: String): Unit = backend.put(tagFamily, group, tagKey, tag.getBytes(UTF_8))
}
