package keystate.backend.rocksdb

import java.util.Arrays

import scala.util.control.NonFatal

/** Lookups that follow the order of a family's entries. A stream-stream join of Spark makes them
  * when it removes old rows: it scans the keys of one family, and looks up the values of each key
  * in another. A cursor next to the lookups reaches the next entry for much less than a lookup
  * costs.
  *
  * The cursor is opened after some lookups in ascending order, and closed when a lookup steps back
  * or skips more than a few entries. Each time a cursor is closed soon, the next one is opened
  * later.
  *
  * @param scan
  *   a group's stored entries from a key on
  * @param writes
  *   counts the writes: a cursor does not see later writes
  */
private[rocksdb] final class LookupsInOrder(
    scan: (Int, Array[Byte]) => StoredCursor,
    writes: () => Long
) {
  import LookupsInOrder._

  private var lastGroup = -1
  private var lastKey: Array[Byte] = _
  private var inOrder = 0
  private val patience = new Patience(FewestInOrder)
  private var cursor: StoredCursor = _
  private var cursorGroup = -1
  private var answered = 0
  private var madeAt = 0L

  /** The stored value, null if there is none. `LookItUp` if this does not know. */
  def find(group: Int, key: Array[Byte]): Array[Byte] = {
    val step = if (group == lastGroup) Arrays.compareUnsigned(key, lastKey) else group - lastGroup
    lastGroup = group
    lastKey = key
    if (step < 0 || (cursor != null && madeAt != writes())) {
      stop()
      LookItUp
    } else {
      if (step > 0) inOrder += 1
      try {
        if (cursor != null && cursorGroup != group) close()
        if (cursor == null && inOrder > patience.enough) open(group, key)
        if (cursor == null) LookItUp else ask(key)
      } catch {
        // Some entry can't be read. A lookup will find out whether it is this one. A failed cursor
        // must not go on.
        case NonFatal(_) =>
          stop()
          patience.failed()
          LookItUp
      }
    }
  }

  /** Must be called when the transaction ends: an open cursor keeps files alive. */
  def clear(): Unit = {
    close()
    lastGroup = -1
    lastKey = null
    inOrder = 0
  }

  private def ask(key: Array[Byte]): Array[Byte] = {
    var steps = 0
    var order = compareTo(key)
    while (order < 0 && steps < MostSteps) {
      cursor.advance()
      steps += 1
      order = compareTo(key)
    }
    if (order < 0) {
      stop()
      LookItUp
    } else {
      answered += 1
      if (order == 0) cursor.value else null
    }
  }

  /** Compares the cursor's position with a key; at its end the cursor is behind all keys. */
  private def compareTo(key: Array[Byte]): Int =
    if (cursor.key == null) 1 else Arrays.compareUnsigned(cursor.key, key)

  private def open(group: Int, key: Array[Byte]): Unit = {
    madeAt = writes()
    cursor = scan(group, key)
    cursorGroup = group
  }

  private def stop(): Unit = {
    close()
    inOrder = 0
  }

  private def close(): Unit = if (cursor != null) {
    patience.closed(answered)
    answered = 0
    cursor.close()
    cursor = null
  }
}

private[rocksdb] object LookupsInOrder {

  /** Marks a value that needs a lookup. */
  val LookItUp = new Array[Byte](0)

  private final val FewestInOrder = 8

  /** How many skipped entries cost as much as a lookup. */
  private final val MostSteps = 4
}
