package keystate.backend.rocksdb

import java.util.Arrays

import scala.collection.mutable
import scala.util.control.NonFatal

/** Short scans that go through each group in key order, with scans of other groups in between.
  * Spark's session windows make such scans when rows are sorted by key: they read the sessions of
  * each key. A cursor for each group follows the scans, and reaches the next entries for much less
  * than a seek costs.
  *
  * A group's cursor is opened after some scans in ascending order, and closed when a scan steps
  * back or has many entries. Each time a cursor is closed soon, the next one is opened later. Scans
  * of prefixes of different lengths are ordered separately, because keys start with their length.
  *
  * @param scan
  *   a group's stored entries from a key on
  * @param writes
  *   counts the writes: a cursor does not see later writes
  */
private[rocksdb] final class ScansInOrder(
    scan: (Int, Array[Byte]) => ForwardCursor,
    writes: () => Long
) {
  import ScansInOrder._

  private val walks = new mutable.LongMap[Walk]
  private var madeAt = 0L

  /** The stored entries in a range. Null if this does not know them. */
  def find(group: Int, start: Array[Byte], end: Array[Byte]): StoredRange = {
    if (madeAt != writes()) {
      clear()
      madeAt = writes()
    }
    val walk = walkOf(group.toLong << 32 | start.length)
    if (walk == null) null
    else
      try walk.find(group, start, end)
      catch {
        // Some entry can't be read. The caller's own scan will find out whether it is one of these.
        // A failed cursor must not go on.
        case NonFatal(_) =>
          walk.failed()
          null
      }
  }

  /** Must be called when the transaction ends: open cursors keep files alive. */
  def clear(): Unit = {
    walks.values.foreach(_.close())
    walks.clear()
  }

  private def walkOf(id: Long): Walk = {
    val known = walks.getOrNull(id)
    if (known != null || walks.size == MostWalks) known
    else {
      val made = new Walk
      walks(id) = made
      made
    }
  }

  private final class Walk {
    private val patience = new Patience(FewestInOrder)
    private var last: Array[Byte] = _
    private var inOrder = 0
    private var cursor: ForwardCursor = _
    // The cursor is at the first entry from here on, or beyond.
    private var readUntil: Array[Byte] = _
    private var answered = 0
    // How often the next range was too far away for steps, minus how often it was not.
    private var tooFar = 0

    def find(group: Int, start: Array[Byte], end: Array[Byte]): StoredRange = {
      val order = if (last == null) 0 else Arrays.compareUnsigned(start, last)
      last = start
      if (order > 0) inOrder += 1
      if (order < 0 || order > 0 && cursor != null && isBehind(start)) stop()
      if (order <= 0) null
      else if (cursor != null) read(group, start, end)
      else if (inOrder > patience.enough) {
        cursor = scan(group, start)
        read(group, start, end)
      } else null
    }

    def failed(): Unit = {
      patience.failed()
      close()
      inOrder = 0
    }

    def close(): Unit = if (cursor != null) {
      cursor.close()
      cursor = null
      answered = 0
    }

    /** Whether the cursor has passed entries of a range with this start. */
    private def isBehind(start: Array[Byte]) = Arrays.compareUnsigned(start, readUntil) < 0

    private def stop(): Unit = {
      if (cursor != null) patience.closed(answered)
      close()
      inOrder = 0
    }

    private def read(group: Int, start: Array[Byte], end: Array[Byte]): StoredRange = {
      // If ranges are far apart, steps are tried only for some of them.
      val steps = if (tooFar < Sparse || answered % Sparse == 0) MostSteps else 0
      if (cursor.goOnTo(start, steps)) tooFar = Math.max(0, tooFar - 1)
      else if (steps > 0) tooFar = Math.min(Sparse, tooFar + 1)
      val entries = new FewEntries
      while (
        !entries.areTooMany && cursor.key != null && Arrays.compareUnsigned(cursor.key, end) < 0
      ) {
        entries.add(cursor)
        cursor.advance()
      }
      if (entries.areTooMany) {
        stop()
        null
      } else {
        answered += 1
        readUntil = end
        entries.range(group, start, end)
      }
    }
  }
}

private[rocksdb] object ScansInOrder {
  private final val FewestInOrder = 4

  /** How many skipped entries cost as much as a seek. */
  private final val MostSteps = 16

  /** After this many ranges that were far away, seeks are used immediately. */
  private final val Sparse = 8

  /** Each open cursor holds a block of each file. */
  private final val MostWalks = 128
}
