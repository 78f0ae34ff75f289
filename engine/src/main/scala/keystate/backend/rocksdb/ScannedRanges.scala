package keystate.backend.rocksdb

import java.util.Arrays

import keystate.backend.BytewiseOrder

/** The results of a family's last short scans of the database. They stay true in the open
  * transaction, because changes go into the database only with the commit. So scanning a range
  * again, and then writing one of its entries, needs no lookup. Spark's session windows do both for
  * each key, with a few other keys in between, so the last few ranges are kept.
  */
private[rocksdb] final class ScannedRanges {
  import ScannedRanges._

  private val ranges = new Array[StoredRange](MaxRanges)
  private var next = 0
  private var isEmpty = true
  // How often it was cleared: a scan that began before the last clearing no longer counts.
  private var clears = 0L

  def clear(): Unit = {
    clears += 1
    if (!isEmpty) {
      Arrays.fill(ranges.asInstanceOf[Array[AnyRef]], null)
      isEmpty = true
    }
  }

  /** The entries of a range that was scanned to its end. Null if it is not known. */
  def cursor(group: Int, start: Array[Byte], end: Array[Byte]): StoredCursor = {
    val range = find(known =>
      known.group == group && Arrays.equals(known.start, start) && Arrays.equals(known.end, end)
    )
    if (range == null) null else range.cursor
  }

  /** Whether the database has an entry: `Present`, `Absent` or `Unknown`. */
  def has(group: Int, key: Array[Byte]): Int = {
    val range = find(known =>
      known.group == group && BytewiseOrder.comparator.compare(known.start, key) <= 0 &&
        BytewiseOrder.comparator.compare(key, known.end) < 0
    )
    if (range == null) Unknown
    else if (range.keys.exists(Arrays.equals(_, key))) Present
    else Absent
  }

  /** Takes note of a range that was read. */
  def note(range: StoredRange): Unit = {
    ranges(next) = range
    next = (next + 1) % MaxRanges
    isEmpty = false
  }

  /** The same entries; if they are few, they are noted while they are read. */
  def noting(cursor: StoredCursor, group: Int, start: Array[Byte], end: Array[Byte]): StoredCursor =
    new NotingCursor(cursor, group, start, end)

  private def find(isWanted: StoredRange => Boolean): StoredRange = {
    var found: StoredRange = null
    if (!isEmpty) {
      var i = 0
      while (found == null && i < MaxRanges) {
        if (ranges(i) != null && isWanted(ranges(i))) found = ranges(i)
        i += 1
      }
    }
    found
  }

  private final class NotingCursor(
      cursor: StoredCursor,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ) extends StoredCursor {
    private val begun = clears
    private val entries = new FewEntries
    note()

    override def key: Array[Byte] = cursor.key
    override def value: Array[Byte] = cursor.value
    override def close(): Unit = cursor.close()

    override def advance(): Unit = {
      cursor.advance()
      note()
    }

    private def note(): Unit = if (!entries.areTooMany)
      if (cursor.key != null) entries.add(cursor)
      else if (begun == clears) ScannedRanges.this.note(entries.range(group, start, end))
  }
}

private[rocksdb] object ScannedRanges {
  final val Unknown = -1
  final val Absent = 0
  final val Present = 1

  private final val MaxRanges = 4
}
