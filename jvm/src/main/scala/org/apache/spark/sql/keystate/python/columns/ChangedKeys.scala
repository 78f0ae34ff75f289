package org.apache.spark.sql.keystate.python.columns

import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.python.protocol.Protocol
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The keys whose list or map a worker has changed, one after the other. What a key had is cleared
  * first where the worker says so.
  */
private[columns] final class ChangedKeys(
    slots: KeySlots,
    columns: String => ArrowColumnVector,
    state: Int,
    entries: FamilyEntries
) {
  private val changed = columns(Protocol.stateColumn(state, Protocol.Part.Slot)).getArray(0)
  private val resets = columns(Protocol.stateColumn(state, Protocol.Part.Reset)).getArray(0)

  /** Which of the changed keys this is. */
  var index: Int = -1
  var slot: Int = _
  var group: Int = _
  var key: Array[Byte] = _

  /** How many entries were cleared so far. */
  var removed: Long = 0

  def next(): Boolean = {
    index += 1
    val more = index < changed.numElements()
    if (more) {
      slot = changed.getInt(index)
      group = slots.group(slot)
      key = slots.key(slot)
      if (resets.getBoolean(index)) removed += entries.clear(group, key)
    }
    more
  }
}
