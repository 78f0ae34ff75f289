package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The keys whose list or map a worker has changed, one after the other. A key's old entries are
  * cleared first if the worker requests that.
  */
private[messages] final class ChangedKeys(
    keyIndexes: KeyIndexes,
    columns: String => ArrowColumnVector,
    state: Int,
    entries: FamilyEntries
) {
  private val changed = columns(Protocol.stateColumn(state, Protocol.Part.KeyIndex)).getArray(0)
  private val resets = columns(Protocol.stateColumn(state, Protocol.Part.Reset)).getArray(0)

  /** The index of the current changed key. */
  var index: Int = -1
  var keyIndex: Int = _
  var group: Int = _
  var key: Array[Byte] = _

  /** The number of entries cleared so far. */
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
