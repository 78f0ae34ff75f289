package keystate.backend.rocksdb

import java.util.Arrays

import scala.collection.mutable
import scala.util.control.NonFatal

/** Short scans that go through each group in the order of its keys, with scans of other groups
  * between. They do so where rows come sorted by their keys: Spark's session windows read the
  * sessions of each key. A cursor for each group goes along, and has the next entries for much less
  * than a seek.
  *
  * A group's cursor is opened after some scans that went up without a step back, and closed when
  * they step back or have many entries. Each time this happens soon it takes longer until the next
  * one is opened. Scans of beginnings of different lengths are in orders of their own: keys that
  * begin with their length are.
  *
  * @param scan
  *   a group's stored entries from a key on
  * @param writes
  *   counts what was written: a cursor does not see what came after it
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
        // Some entry can't be read. Whether it is one of these the caller's own scan tells. A
        // cursor that has failed must not go on.
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
    // How often the next range was too far away for steps, less how often it was not.
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

    /** Whether the cursor has passed entries of a range that begins here. */
    private def isBehind(start: Array[Byte]) = Arrays.compareUnsigned(start, readUntil) < 0

    private def stop(): Unit = {
      if (cursor != null) patience.closed(answered)
      close()
      inOrder = 0
    }

    private def read(group: Int, start: Array[Byte], end: Array[Byte]): StoredRange = {
      // Where ranges are far from each other, steps are tried for one in some only.
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

  /** How many entries that nobody asks for cost as much as a seek. */
  private final val MostSteps = 16

  /** After how many ranges that were far away seeks are used at once. */
  private final val Sparse = 8

  /** Each open cursor holds a block of each file. */
  private final val MostWalks = 128
}
