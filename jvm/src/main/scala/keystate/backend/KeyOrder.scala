package keystate.backend

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.{Arrays, Comparator}

/** The bytewise (unsigned) order of keys. */
object KeyOrder {
  val comparator: Comparator[Array[Byte]] = Arrays.compareUnsigned(_, _)

  private final val FewKeys = 32
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

  /** Sorts the first `count` keys. Comparing keys means fetching them from all over the memory, so
    * many are sorted as numbers: what follows their common beginning, with the key's index in place
    * of the last bits. Only those which that does not tell apart are compared.
    */
  def sort(keys: Array[Array[Byte]], count: Int): Unit =
    if (count <= FewKeys) Arrays.sort(keys, 0, count, comparator)
    else {
      val common = commonLength(keys, count)
      val index = (1L << (32 - Integer.numberOfLeadingZeros(count - 1))) - 1
      val order = new Array[Long](count)
      var i = 0
      while (i < count) {
        // Numbers are compared with their sign, keys without.
        order(i) = (bits(keys(i), common) & ~index | i) ^ Long.MinValue
        i += 1
      }
      Arrays.sort(order)
      val unsorted = Arrays.copyOf(keys, count)
      i = 0
      while (i < count) {
        keys(i) = unsorted((order(i) & index).toInt)
        i += 1
      }
      var from = 0
      while (from < count) {
        var until = from + 1
        while (until < count && (order(until) & ~index) == (order(from) & ~index)) until += 1
        if (until - from > 1) Arrays.sort(keys, from, until, comparator)
        from = until
      }
    }

  private def commonLength(keys: Array[Array[Byte]], count: Int): Int = {
    val first = keys(0)
    var common = first.length
    var i = 1
    while (i < count && common > 0) {
      val length = Math.min(common, keys(i).length)
      val different = Arrays.mismatch(first, 0, length, keys(i), 0, length)
      common = if (different < 0) length else different
      i += 1
    }
    common
  }

  /** The eight bytes from `offset` on, as if zeros followed the key. */
  private def bits(key: Array[Byte], offset: Int): Long =
    if (key.length - offset >= 8) {
      val bits: Long = longs.get(key, offset)
      bits
    } else {
      var bits = 0L
      var i = offset
      while (i < key.length) {
        bits |= (key(i) & 0xffL) << (56 - 8 * (i - offset))
        i += 1
      }
      bits
    }
}
