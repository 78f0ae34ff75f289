package keystate.backend.heap

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import keystate.backend.{Entry, EntryIterator}

/** A few entries of one key as bytes in one array, in the order of their user keys: the garbage
  * collector has one object to follow. An array is never changed, so it can be read on while there
  * are changes.
  *
  * {{{
  * entry    [int32 length of user key][int32 length of value][user key][value]
  * }}}
  *
  * Numbers are little-endian; files never contain them. A user key is given as the end of an entry
  * key, from where it begins.
  */
private[heap] object PackedEntries {
  val Empty: Array[Byte] = Array.emptyByteArray

  private final val Header = 8
  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.LITTLE_ENDIAN)

  /** Where an entry begins, or the complement of where it would. */
  def find(packed: Array[Byte], key: Array[Byte], from: Int): Int = {
    var at = 0
    var order = -1
    while (order < 0 && at < packed.length) {
      val start = at + Header
      order = Arrays.compareUnsigned(packed, start, start + int(packed, at), key, from, key.length)
      if (order < 0) at = next(packed, at)
    }
    if (order == 0) at else ~at
  }

  /** The value of the entry that begins there, copied. */
  def value(packed: Array[Byte], at: Int): Array[Byte] =
    Arrays.copyOfRange(packed, valueStart(packed, at), next(packed, at))

  /** The entries with another one, whose value replaces the one before.
    *
    * @param found
    *   what `find` gives for its key
    */
  def updated(
      packed: Array[Byte],
      found: Int,
      key: Array[Byte],
      keyStart: Int,
      keyEnd: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Array[Byte] = {
    val at = if (found < 0) ~found else found
    val rest = if (found < 0) at else next(packed, at)
    val keyLength = keyEnd - keyStart
    val length = Math.addExact(Header + keyLength, valueLength)
    val made = new Array[Byte](Math.addExact(packed.length - (rest - at), length))
    System.arraycopy(packed, 0, made, 0, at)
    ints.set(made, at, keyLength)
    ints.set(made, at + 4, valueLength)
    System.arraycopy(key, keyStart, made, at + Header, keyLength)
    System.arraycopy(value, valueStart, made, at + Header + keyLength, valueLength)
    System.arraycopy(packed, rest, made, at + length, packed.length - rest)
    made
  }

  /** The entries without the one that begins there. */
  def without(packed: Array[Byte], at: Int): Array[Byte] = {
    val rest = next(packed, at)
    val made = Arrays.copyOf(packed, packed.length - (rest - at))
    System.arraycopy(packed, rest, made, at, packed.length - rest)
    made
  }

  /** The number of entries. */
  def count(packed: Array[Byte]): Int = {
    var (count, at) = (0, 0)
    while (at < packed.length) {
      count += 1
      at = next(packed, at)
    }
    count
  }

  /** Tells how entries differ from what they were, in order.
    *
    * @param tell
    *   takes an array and where the entry begins in it, and whether it was removed
    */
  def differences(before: Array[Byte], now: Array[Byte])(
      tell: (Array[Byte], Int, Boolean) => Unit
  ): Unit = {
    var (was, is) = (0, 0)
    while (was < before.length || is < now.length) {
      val order =
        if (was == before.length) 1
        else if (is == now.length) -1
        else {
          val (a, b) = (was + Header, is + Header)
          Arrays.compareUnsigned(before, a, a + int(before, was), now, b, b + int(now, is))
        }
      val nextWas = if (order <= 0) next(before, was) else was
      val nextIs = if (order >= 0) next(now, is) else is
      if (order < 0) tell(before, was, true)
      else if (order > 0 || !Arrays.equals(before, was, nextWas, now, is, nextIs))
        tell(now, is, false)
      was = nextWas
      is = nextIs
    }
  }

  /** Adds the entries' keys and values, in order. */
  def foreach(prefix: Array[Byte], packed: Array[Byte])(
      take: (Array[Byte], Array[Byte]) => Unit
  ): Unit = {
    var at = 0
    while (at < packed.length) {
      take(key(prefix, packed, at), value(packed, at))
      at = next(packed, at)
    }
  }

  /** The entry key of the entry that begins there. */
  def key(prefix: Array[Byte], packed: Array[Byte], at: Int): Array[Byte] = {
    val length = int(packed, at)
    val key = Arrays.copyOf(prefix, prefix.length + length)
    System.arraycopy(packed, at + Header, key, prefix.length, length)
    key
  }

  def valueStart(packed: Array[Byte], at: Int): Int = at + Header + int(packed, at)

  def valueLength(packed: Array[Byte], at: Int): Int = int(packed, at + 4)

  /** The entries between two entry keys; see [[keystate.backend.StateEntries.scan]]. */
  def scan(
      prefix: Array[Byte],
      packed: Array[Byte],
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): EntryIterator = {
    def place(key: Array[Byte]) = {
      // The least key after all of this one's entries does not begin as they do.
      val length = Math.min(key.length, prefix.length)
      val isOwn = Arrays.equals(key, 0, length, prefix, 0, prefix.length)
      val found = if (isOwn) find(packed, key, prefix.length) else packed.length
      if (found < 0) ~found else found
    }
    val from = if (start == null) 0 else place(start)
    val until = if (end == null) packed.length else place(end)
    if (reverse) new Backwards(prefix, packed, from, until)
    else new Forwards(prefix, packed, from, until)
  }

  private final class Forwards(
      prefix: Array[Byte],
      packed: Array[Byte],
      from: Int,
      private var until: Int
  ) extends EntryIterator {
    private var at = from

    override def hasNext: Boolean = at < until

    override def next(): Entry = {
      if (!hasNext) Iterator.empty.next()
      val entry = new Entry(key(prefix, packed, at), value(packed, at))
      at = PackedEntries.next(packed, at)
      entry
    }

    override def close(): Unit = until = 0
  }

  private final class Backwards(prefix: Array[Byte], packed: Array[Byte], from: Int, until: Int)
      extends EntryIterator {
    private var places = List.empty[Int]

    locally {
      var at = from
      while (at < until) {
        places ::= at
        at = PackedEntries.next(packed, at)
      }
    }

    override def hasNext: Boolean = places.nonEmpty

    override def next(): Entry = {
      if (!hasNext) Iterator.empty.next()
      val at = places.head
      places = places.tail
      new Entry(key(prefix, packed, at), value(packed, at))
    }

    override def close(): Unit = places = Nil
  }

  private def next(packed: Array[Byte], at: Int): Int =
    valueStart(packed, at) + valueLength(packed, at)

  private def int(packed: Array[Byte], at: Int): Int = {
    val value: Int = ints.get(packed, at)
    value
  }
}
