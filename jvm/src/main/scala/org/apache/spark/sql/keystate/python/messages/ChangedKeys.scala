package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The keys whose list or map a worker has changed, one after the other. What a key had is cleared
  * first where the worker says so.
  */
private[messages] final class ChangedKeys(
    keyIndexes: KeyIndexes,
    columns: String => ArrowColumnVector,
    state: Int,
    entries: FamilyEntries
) {
  private val changed = columns(Protocol.stateColumn(state, Protocol.Part.KeyIndex)).getArray(0)
  private val resets = columns(Protocol.stateColumn(state, Protocol.Part.Reset)).getArray(0)

  /** Which of the changed keys this is. */
  var index: Int = -1
  var keyIndex: Int = _
  var group: Int = _
  var key: Array[Byte] = _

  /** How many entries were cleared so far. */
  var removed: Long = 0

  def next(): Boolean = {
    index += 1
    val more = index < changed.numElements()
    if (more) {
      keyIndex = changed.getInt(index)
      group = keyIndexes.group(keyIndex)
      key = keyIndexes.key(keyIndex)
      if (resets.getBoolean(index)) removed += entries.clear(group, key)
    }
    more
  }
}
