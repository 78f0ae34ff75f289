package keystate.backend

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

/** Sorts keys into [[KeyOrder]]. To compare keys is to fetch them from all over the memory. So each
  * becomes a number of 64 bits: its eight bytes from where the keys begin to differ, with the key's
  * index in place of the last bits. The numbers are sorted, and only keys whose numbers differ in
  * nothing but the index are compared.
  */
private[backend] object KeySort {
  // Below this number of keys, comparing the numbers is faster than a radix sort.
  private final val FewKeys = 200

  // Below this number of keys with equal numbers, comparing the keys is faster than another sort.
  private final val FewEqual = 16

  // Beyond that, keys are compared: they may have very long beginnings in common.
  private final val MostDepth = 8

  private val longs =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)

  /** Sorts the first `count` keys in place. */
  def sort(keys: Array[Array[Byte]], count: Int): Unit = {
    val unsorted = Arrays.copyOf(keys, count)
    val sorted = order(unsorted)
    var i = 0
    while (i < count) {
      keys(i) = unsorted(sorted(i))
      i += 1
    }
  }

  /** The indexes of keys that are whole arrays, in the order of the keys. */
  def order(keys: Array[Array[Byte]]): Array[Int] = order(new Keys {
    override def count: Int = keys.length
    override def array(i: Int): Array[Byte] = keys(i)
    override def start(i: Int): Int = 0
    override def end(i: Int): Int = keys(i).length
  })

  /** The indexes of the keys, in the order of the keys. */
  def order(keys: Keys): Array[Int] = order(keys, 0)

  /** @param depth
    *   how often the keys have been sorted by bytes before these
    */
  private def order(keys: Keys, depth: Int): Array[Int] = {
    val count = keys.count
    val index = (1L << (32 - Integer.numberOfLeadingZeros(count - 1))) - 1
    val prefixes = new Array[Long](count)
    val varying = readPrefixes(keys, prefixes)
    var i = 0
    while (i < count) {
      prefixes(i) = prefixes(i) & ~index | i
      i += 1
    }
    val sortedPrefixes =
      if (count < FewKeys) compared(prefixes) else counted(prefixes, varying & ~index)
    val order = new Array[Int](count)
    i = 0
    while (i < count) {
      order(i) = (sortedPrefixes(i) & index).toInt
      i += 1
    }
    var from = 0
    while (from < count) {
      val prefix = sortedPrefixes(from) & ~index
      var until = from + 1
      while (until < count && (sortedPrefixes(until) & ~index) == prefix) until += 1
      if (until - from > FewEqual) {
        val equal = order.slice(from, until)
        // If no bit differs, only the keys' lengths differ.
        val sorted =
          if (varying == 0 || depth == MostDepth) equal.sorted(keys.compare(_, _))
          else this.order(chosen(keys, equal), depth + 1).map(equal(_))
        System.arraycopy(sorted, 0, order, from, sorted.length)
      } else if (until - from > 1) insert(keys, order, from, until)
      from = until
    }
    order
  }

  /** Some of the keys. They begin to differ later than all of them. */
  private def chosen(keys: Keys, indexes: Array[Int]): Keys = new Keys {
    override def count: Int = indexes.length
    override def array(i: Int): Array[Byte] = keys.array(indexes(i))
    override def start(i: Int): Int = keys.start(indexes(i))
    override def end(i: Int): Int = keys.end(indexes(i))
  }

  /** Sorts a part of `order` by comparing keys. */
  private def insert(keys: Keys, order: Array[Int], from: Int, until: Int): Unit = {
    var i = from + 1
    while (i < until) {
      val key = order(i)
      var k = i
      while (k > from && keys.compare(order(k - 1), key) > 0) {
        order(k) = order(k - 1)
        k -= 1
      }
      order(k) = key
      i += 1
    }
  }

  /** Sets `prefixes` to eight bytes of each key, after the bytes that all keys start with. The
    * result has the bits set in which these numbers differ.
    */
  private def readPrefixes(keys: Keys, prefixes: Array[Long]): Long = {
    var offset = 0
    var common = 8
    var varying = 0L
    while (common > 0) {
      varying = 0
      var longest = 0
      var i = 0
      while (i < prefixes.length) {
        val start = keys.start(i)
        val end = keys.end(i)
        prefixes(i) = bits(keys.array(i), start + offset, end)
        varying |= prefixes(i) ^ prefixes(0)
        longest = Math.max(longest, end - start)
        i += 1
      }
      common = java.lang.Long.numberOfLeadingZeros(varying) / 8
      offset += common
      if (offset >= longest) common = 0
    }
    varying
  }

  /** Sorts the numbers as unsigned, in place, by comparing them. */
  private def compared(numbers: Array[Long]): Array[Long] = {
    def flipSigns(): Unit = numbers.indices.foreach(i => numbers(i) ^= Long.MinValue)
    flipSigns()
    Arrays.sort(numbers)
    flipSigns()
    numbers
  }

  /** Sorts the numbers as unsigned by a radix sort from the last byte to the first. It skips bytes
    * without a bit of `varying`, which are the same in all numbers. May return another array.
    */
  private def counted(numbers: Array[Long], varying: Long): Array[Long] = {
    var from = numbers
    var to = new Array[Long](numbers.length)
    val starts = new Array[Int](257)
    var shift = 0
    while (shift < 64) {
      if ((varying >>> shift & 0xff) != 0) {
        Arrays.fill(starts, 0)
        var i = 0
        while (i < from.length) {
          starts((from(i) >>> shift & 0xff).toInt + 1) += 1
          i += 1
        }
        i = 1
        while (i < 256) {
          starts(i) += starts(i - 1)
          i += 1
        }
        i = 0
        while (i < from.length) {
          val byte = (from(i) >>> shift & 0xff).toInt
          to(starts(byte)) = from(i)
          starts(byte) += 1
          i += 1
        }
        val free = from
        from = to
        to = free
      }
      shift += 8
    }
    from
  }

  /** The eight bytes from `start`, padded with zeros after `end`, the end of the key. */
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

/** Keys by index, each the part of an array from `start` until before `end`. */
private[backend] trait Keys {
  def count: Int
  def array(i: Int): Array[Byte]
  def start(i: Int): Int
  def end(i: Int): Int

  /** Compares key `i` with key `k` in [[KeyOrder]]. */
  def compare(i: Int, k: Int): Int =
    Arrays.compareUnsigned(array(i), start(i), end(i), array(k), start(k), end(k))
}
