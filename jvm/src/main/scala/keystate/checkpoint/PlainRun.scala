package keystate.checkpoint

import java.io.{EOFException, InputStream, OutputStream}
import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import keystate.backend.{Change, ChangeSink}
import keystate.keygroup.KeyGroupRange

/** A run as a plain sequence of entries, key and value as in [[RunFormat]]:
  * `[int32 key length][key][int32 value length][value]`. Inline runs are of this format, and so are
  * the run files of backends that read each entry anyway, compressed (see [[SectionedRun]]).
  */
private[checkpoint] object PlainRun {

  /** How much is encoded, or read, at a time. */
  final val Block = 64 * 1024
  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)

  /** The entries of the families whose group is in the range; closing the cursor closes `in`. */
  def read(in: InputStream, families: Set[Int], groups: KeyGroupRange): RunCursor =
    new Cursor(in, new Array[Byte](Block), 0, families, groups)

  def read(content: Array[Byte], families: Set[Int], groups: KeyGroupRange): RunCursor =
    new Cursor(InputStream.nullInputStream, content, content.length, families, groups)

  /** Encoded entries in memory.
    *
    * @param whenFull
    *   is called when there are more than `room` bytes
    */
  final class Entries(room: Long, whenFull: Entries => Unit) extends ChangeSink {
    val statistics = new RunStatistics
    private var bytes = new Array[Byte](Block)
    private var length = 0

    override def add(
        family: Int,
        group: Int,
        key: Array[Byte],
        keyStart: Int,
        keyLength: Int,
        value: Array[Byte],
        valueStart: Int,
        valueLength: Int
    ): Unit = {
      val storedKey = RunFormat.PrefixLength + keyLength
      val storedValue = if (value == null) 1 else 1 + valueLength
      val end = Math.addExact(length, Math.addExact(8 + storedKey, storedValue))
      if (end > bytes.length)
        bytes = Arrays.copyOf(bytes, Math.max(end, Math.min(2L * bytes.length, MaxArray).toInt))
      val keyAt = length + 4
      val valueAt = keyAt + storedKey + 4
      ints.set(bytes, length, storedKey)
      ints.set(bytes, keyAt, family << 16 | group)
      System.arraycopy(key, keyStart, bytes, keyAt + RunFormat.PrefixLength, keyLength)
      ints.set(bytes, valueAt - 4, storedValue)
      if (value == null) bytes(valueAt) = RunFormat.Removed
      else {
        bytes(valueAt) = RunFormat.Put
        System.arraycopy(value, valueStart, bytes, valueAt + 1, valueLength)
      }
      length = end
      statistics.add(group)
      if (length > room) whenFull(this)
    }

    def toByteArray: Array[Byte] = Arrays.copyOf(bytes, length)

    /** How many bytes there are. */
    def size: Int = length

    def moveTo(out: OutputStream): Unit = {
      out.write(bytes, 0, length)
      length = 0
    }
  }

  private final val MaxArray = Int.MaxValue - 8L

  private final class Cursor(
      in: InputStream,
      private var bytes: Array[Byte],
      private var limit: Int,
      families: Set[Int],
      groups: KeyGroupRange
  ) extends RunCursor {
    private var position = 0
    // Entries of a family follow each other.
    private var lastFamily = -1
    private var lastIsWanted = false
    private var upcoming = read()

    override def hasNext: Boolean = upcoming != null

    override def next(): Change = {
      val change = upcoming
      upcoming = read()
      change
    }

    override def close(): Unit = in.close()

    private def read(): Change = {
      var change: Change = null
      while (change == null && hasMore) {
        val keyLength = int(0)
        val valueLength = int(4 + keyLength)
        fill(8 + keyLength + valueLength)
        val key = position + 4
        val value = key + keyLength + 4
        position = value + valueLength
        val family = RunFormat.familyOf(bytes, key)
        val group = RunFormat.groupOf(bytes, key)
        if (isWanted(family) && groups.contains(group))
          change = Change(
            family,
            group,
            Arrays.copyOfRange(bytes, key + RunFormat.PrefixLength, key + keyLength),
            if (bytes(value) == RunFormat.Removed) null
            else Arrays.copyOfRange(bytes, value + 1, position)
          )
      }
      change
    }

    private def isWanted(family: Int): Boolean = {
      if (family != lastFamily) {
        lastFamily = family
        lastIsWanted = families.contains(family)
      }
      lastIsWanted
    }

    private def hasMore: Boolean = position < limit || { refill(1); limit > 0 }

    private def int(offset: Int): Int = {
      fill(offset + 4)
      val value: Int = ints.get(bytes, position + offset)
      value
    }

    private def fill(length: Int): Unit = if (limit - position < length) {
      refill(length)
      if (limit < length) throw new EOFException("a run ends within an entry")
    }

    /** Moves what is left to the front and reads on, until there is so much or the end. */
    private def refill(length: Int): Unit = {
      val left = limit - position
      val target = if (length > bytes.length) new Array[Byte](length) else bytes
      System.arraycopy(bytes, position, target, 0, left)
      bytes = target
      position = 0
      limit = left
      var count = 0
      while (limit < length && count >= 0) {
        count = in.read(bytes, limit, bytes.length - limit)
        if (count > 0) limit += count
      }
    }
  }
}
