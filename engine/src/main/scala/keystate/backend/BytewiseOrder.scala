package keystate.backend

import java.util.{Arrays, Comparator, NavigableMap}

/** The bytewise order of keys: bytes are unsigned, and a prefix comes before longer keys. */
object BytewiseOrder {
  val comparator: Comparator[Array[Byte]] = Arrays.compareUnsigned(_, _)

  /** The smallest key that is greater than all keys with this prefix; null if all bytes of the
    * prefix are 0xFF, because then there is none.
    */
  def after(prefix: Array[Byte]): Array[Byte] = {
    val last = prefix.lastIndexWhere(_ != -1)
    if (last < 0) null
    else {
      val end = Arrays.copyOf(prefix, last + 1)
      end(last) = (end(last) + 1).toByte
      end
    }
  }

  /** A view of the entries from `start` (inclusive; null: from the first) to `end` (exclusive;
    * null: to the last), from last to first if `reverse`; null when `start` is after `end`.
    */
  def range[V](
      entries: NavigableMap[Array[Byte], V],
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): NavigableMap[Array[Byte], V] = {
    val view =
      if (start == null && end == null) entries
      else if (end == null) entries.tailMap(start, true)
      else if (start == null) entries.headMap(end, false)
      else if (comparator.compare(start, end) > 0) null
      else entries.subMap(start, true, end, false)
    if (view == null || !reverse) view else view.descendingMap
  }
}
