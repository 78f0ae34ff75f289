package keystate.backend

import java.util.Arrays

import keystate.keygroup.KeyGroupRange

/** How a run stores each change. A run is an SST file of RocksDB, or a plain sequence in a file or
  * inline; all forms store changes alike.
  *
  * {{{
  * key    [family id: 2 bytes][key group: 2 bytes][entry key]     numbers big-endian
  * value  [1][entry value]      the entry was put
  *        [0]                   the entry was removed
  * }}}
  *
  * Keys are in bytewise order, each at most once. A removal is stored as a value, not as a RocksDB
  * tombstone, because a reader of a single file would not see a tombstone.
  */
private[keystate] object RunFormat {
  final val PrefixLength = 4
  final val Removed: Byte = 0
  final val Put: Byte = 1

  final val MaxFamilyId = 0xffff

  /** The change that a stored key and value say. */
  def change(key: Array[Byte], value: Array[Byte]): Change = Change(
    family = familyOf(key),
    group = groupOf(key),
    key = Arrays.copyOfRange(key, PrefixLength, key.length),
    value = if (value(0) == Removed) null else Arrays.copyOfRange(value, 1, value.length)
  )

  /** The family id in the stored key that begins there. */
  def familyOf(bytes: Array[Byte], at: Int = 0): Int = uint16(bytes, at)

  /** The key group in the stored key that begins there. */
  def groupOf(bytes: Array[Byte], at: Int = 0): Int = uint16(bytes, at + 2)

  private def uint16(bytes: Array[Byte], at: Int): Int =
    (bytes(at) & 0xff) << 8 | bytes(at + 1) & 0xff

  /** The prefix of the stored keys in a family's group. For a family above [[MaxFamilyId]] it is a
    * prefix that comes after all stored keys.
    */
  def prefix(family: Int, group: Int): Array[Byte] =
    if (family > MaxFamilyId) Array.fill(PrefixLength + 1)(-1)
    else Array((family >> 8).toByte, family.toByte, (group >> 8).toByte, group.toByte)

  /** The order of the changes in a run: that of their stored keys. */
  val order: Ordering[Change] = (a, b) =>
    if (a.family != b.family) Integer.compare(a.family, b.family)
    else if (a.group != b.group) Integer.compare(a.group, b.group)
    else Arrays.compareUnsigned(a.key, b.key)
}

/** The changes of a run in their order, each key once. To be closed, read to its end or not. */
private[keystate] trait RunCursor extends Iterator[Change] with AutoCloseable {

  /** Hands all changes that are left to the sink. */
  def moveTo(sink: ChangeSink): Unit = sink.addAll(this)
}

/** Counts the changes of a run as they are written, and notes their groups. */
private[keystate] final class RunStatistics {
  private var first = Int.MaxValue
  private var last = -1
  private var count = 0L

  def add(group: Int): Unit = {
    first = Math.min(first, group)
    last = Math.max(last, group)
    count += 1
  }

  def entries: Long = count

  /** The range from the first group with a change to the last; undefined before the first change.
    */
  def groups: KeyGroupRange = KeyGroupRange(first, last)
}
