package keystate.version

import java.io.{EOFException, IOException, InputStream, OutputStream}
import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import keystate.backend.{Change, ChangeSink, RunCursor, RunFormat, RunStatistics}
import keystate.keygroup.KeyGroupRange

/** A run as a plain sequence of entries, with keys and values as in [[RunFormat]].
  *
  * {{{
  * entry   [int32 key length][key][int32 value length][value]     numbers big-endian
  * }}}
  *
  * Inline runs are of this format. Compressed, so are the run files of backends that read each
  * entry anyway, see [[SectionedRun]].
  */
private[keystate] object PlainRun {

  /** How many bytes are encoded, or read, at a time. */
  final val Block = 64 * 1024
  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)

  /** The entries of the families whose group is in the range. Closing the cursor closes `in`, which
    * is also closed if this throws.
    *
    * @param corrupt
    *   makes the error that is thrown when `in` can't be read or is no run
    */
  def read(
      in: InputStream,
      families: Set[Int],
      groups: KeyGroupRange,
      corrupt: Exception => Exception
  ): RunCursor =
    try new Cursor(in, new Array[Byte](Block), 0, families, groups, corrupt)
    catch {
      case e: Throwable =>
        in.close()
        throw e
    }

  /** Reads a run from a content for which `problem` is None. */
  def read(content: Array[Byte], families: Set[Int], groups: KeyGroupRange): RunCursor =
    new Cursor(InputStream.nullInputStream, content, content.length, families, groups, identity)

  /** The first error in a content that should be a run with this number of entries; None if it is
    * valid. It checks lengths, flags, the order of the keys and the number of entries.
    */
  def problem(content: Array[Byte], entries: Long): Option[String] = {
    var at = 0
    var count = 0L
    var previous = -1 // where the key before this entry's begins; -1 if there is none
    var previousEnd = -1
    def length(at: Int): Int = if (at < 0 || at > content.length - 4) -1 else ints.get(content, at)
    while (at >= 0 && at < content.length) {
      val keyLength = length(at)
      val key = at + 4
      val keyEnd = key + keyLength
      val valueLength = if (keyLength < RunFormat.PrefixLength) -1 else length(keyEnd)
      val value = keyEnd + 4
      val isEntry = valueLength > 0 && valueLength <= content.length - value &&
        isFlag(content(value), valueLength) && (previous < 0 ||
          Arrays.compareUnsigned(content, previous, previousEnd, content, key, keyEnd) < 0)
      previous = key
      previousEnd = keyEnd
      count += 1
      at = if (isEntry) value + valueLength else -1
    }
    if (at < 0) Some(s"entry $count is none, or not in order")
    else Option.when(count != entries)(s"there are $count entries instead of $entries")
  }

  private def isFlag(flag: Byte, valueLength: Int): Boolean =
    flag == RunFormat.Put || flag == RunFormat.Removed && valueLength == 1

  /** Encodes entries into memory.
    *
    * @param room
    *   in bytes
    * @param whenFull
    *   is called after each entry while there are more than `room` bytes
    */
  final class Entries(room: Long, whenFull: Entries => Unit) extends ChangeSink {

    /** Counts all added entries, including those moved out. */
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

    /** The number of bytes now. */
    def size: Int = length

    /** Writes the bytes out and starts again without any. */
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
      groups: KeyGroupRange,
      corrupt: Exception => Exception
  ) extends RunCursor {
    private var position = 0
    // Entries of a family are consecutive: so one lookup in the set is enough for all of them.
    private var lastFamily = -1
    private var lastIsWanted = false
    // The next entry's stored key and value in `bytes`.
    private var key, keyEnd, value, valueEnd = 0
    private var isThere = advance()

    override def hasNext: Boolean = isThere

    override def next(): Change = {
      if (!isThere) Iterator.empty.next()
      val change = Change(
        RunFormat.familyOf(bytes, key),
        RunFormat.groupOf(bytes, key),
        Arrays.copyOfRange(bytes, key + RunFormat.PrefixLength, keyEnd),
        if (isRemoved) null else Arrays.copyOfRange(bytes, value + 1, valueEnd)
      )
      isThere = advance()
      change
    }

    /** Without a copy of any key or value. */
    override def moveTo(sink: ChangeSink): Unit = while (isThere) {
      sink.add(
        RunFormat.familyOf(bytes, key),
        RunFormat.groupOf(bytes, key),
        bytes,
        key + RunFormat.PrefixLength,
        keyEnd - key - RunFormat.PrefixLength,
        if (isRemoved) null else bytes,
        value + 1,
        valueEnd - value - 1
      )
      isThere = advance()
    }

    override def close(): Unit = in.close()

    private def isRemoved = bytes(value) == RunFormat.Removed

    /** Goes to the next entry that is wanted; false if there is none. */
    private def advance(): Boolean =
      try find()
      catch { case e: IOException => throw corrupt(e) }

    private def find(): Boolean = {
      var found = false
      while (!found && hasMore) {
        val keyLength = int(0)
        if (keyLength < RunFormat.PrefixLength || keyLength > MaxArray - 12) damaged()
        val valueLength = int(4 + keyLength)
        if (valueLength < 1 || valueLength > MaxArray - 8 - keyLength) damaged()
        fill(8 + keyLength + valueLength)
        key = position + 4
        keyEnd = key + keyLength
        value = keyEnd + 4
        valueEnd = value + valueLength
        position = valueEnd
        if (!isFlag(bytes(value), valueLength)) damaged()
        found = isWanted(RunFormat.familyOf(bytes, key)) &&
          groups.contains(RunFormat.groupOf(bytes, key))
      }
      found
    }

    private def damaged(): Nothing = throw new IOException("an entry has no key, value or flag")

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

    /** Moves the rest to the front and reads on, until there are `length` bytes or the input ends.
      * Takes more memory only once the buffer is full: a damaged length must not exhaust the
      * memory.
      */
    private def refill(length: Int): Unit = {
      val left = limit - position
      System.arraycopy(bytes, position, bytes, 0, left)
      position = 0
      limit = left
      var count = 0
      while (limit < length && count >= 0) {
        if (limit == bytes.length)
          bytes = Arrays.copyOf(bytes, Math.min(length, Math.max(2L * limit, Block)).toInt)
        count = in.read(bytes, limit, bytes.length - limit)
        if (count > 0) limit += count
      }
    }
  }
}
