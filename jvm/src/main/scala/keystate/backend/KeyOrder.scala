package keystate.backend

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.{Arrays, Comparator, NavigableMap}

/** The bytewise (unsigned) order of keys. */
object KeyOrder {
  val comparator: Comparator[Array[Byte]] = Arrays.compareUnsigned(_, _)

  private val longs =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)

  /** The smallest key after all that begin with these bytes; null when there is none. */
  def after(prefix: Array[Byte]): Array[Byte] = {
    val last = prefix.lastIndexWhere(_ != -1)
    if (last < 0) null
    else {
      val end = Arrays.copyOf(prefix, last + 1)
      end(last) = (end(last) + 1).toByte
      end
    }
  }

  /** The entries from `start` (null: the first) until before `end` (null: all), or from last to first;
    * null when there can be none.
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

  /** Sorts the first `count` keys. */
  def sort(keys: Array[Array[Byte]], count: Int): Unit = {
    val unsorted = Arrays.copyOf(keys, count)
    val sorted = order(new Keys {
      override def count: Int = unsorted.length
      override def array(i: Int): Array[Byte] = unsorted(i)
      override def start(i: Int): Int = 0
      override def end(i: Int): Int = unsorted(i).length
    })
    var i = 0
    while (i < count) {
      keys(i) = unsorted(sorted(i))
      i += 1
    }
  }

  /** The numbers of the keys in the keys' order. Comparing keys means fetching them from all over the
    * memory, so they are sorted as numbers: what follows their common beginning, with the key's
    * number in place of the last bits. Only those which that does not tell apart are compared.
    */
  private[backend] def order(keys: Keys): Array[Int] = {
    val count = keys.count
    val common = commonLength(keys)
    val index = (1L << (32 - Integer.numberOfLeadingZeros(count - 1))) - 1
    val prefixes = new Array[Long](count)
    var i = 0
    while (i < count) {
      // Numbers are compared with their sign, keys without.
      val bits = this.bits(keys.array(i), keys.start(i) + common, keys.end(i))
      prefixes(i) = (bits & ~index | i) ^ Long.MinValue
      i += 1
    }
    Arrays.sort(prefixes)
    val sorted = new Array[Int](count)
    i = 0
    while (i < count) {
      sorted(i) = (prefixes(i) & index).toInt
      i += 1
    }
    var from = 0
    while (from < count) {
      var until = from + 1
      while (until < count && (prefixes(until) & ~index) == (prefixes(from) & ~index)) until += 1
      if (until - from > 1) {
        val equal = sorted.slice(from, until).sorted(keys.compare(_, _))
        System.arraycopy(equal, 0, sorted, from, equal.length)
      }
      from = until
    }
    sorted
  }

  private def commonLength(keys: Keys): Int = {
    var common = if (keys.count == 0) 0 else keys.end(0) - keys.start(0)
    var i = 1
    while (i < keys.count && common > 0) {
      val start = keys.start(i)
      val length = Math.min(common, keys.end(i) - start)
      val different = Arrays.mismatch(
        keys.array(0),
        keys.start(0),
        keys.start(0) + length,
        keys.array(i),
        start,
        start + length
      )
      common = if (different < 0) length else different
      i += 1
    }
    common
  }

  /** The eight bytes from there on, as if zeros followed the key. */
  private def bits(bytes: Array[Byte], start: Int, end: Int): Long =
    if (end - start >= 8) {
      val bits: Long = longs.get(bytes, start)
      bits
    } else {
      var bits = 0L
      var i = start
      while (i < end) {
        bits |= (bytes(i) & 0xffL) << (56 - 8 * (i - start))
        i += 1
      }
      bits
    }
}

/** Numbered keys, each a part of an array. */
private[backend] trait Keys {
  def count: Int
  def array(i: Int): Array[Byte]
  def start(i: Int): Int
  def end(i: Int): Int

  def compare(i: Int, k: Int): Int =
    Arrays.compareUnsigned(array(i), start(i), end(i), array(k), start(k), end(k))
}
