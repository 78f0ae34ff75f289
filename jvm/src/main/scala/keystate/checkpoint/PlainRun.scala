package keystate.checkpoint

import java.io._

import keystate.backend.Change
import keystate.keygroup.KeyGroupRange

/** A run as a plain sequence of entries, key and value as in [[RunFormat]]:
  * `[int32 key length][key][int32 value length][value]`. Inline runs are of this format, and so are
  * run files that are written where RocksDB's native library cannot be loaded.
  */
private[checkpoint] object PlainRun {
  private final val Buffer = 128 * 1024

  /** Adds one entry. */
  def write(out: DataOutputStream, change: Change): Unit = {
    out.writeInt(RunFormat.PrefixLength + change.key.length)
    out.writeShort(change.family)
    out.writeShort(change.group)
    out.write(change.key)
    if (change.value == null) {
      out.writeInt(1)
      out.writeByte(RunFormat.Removed)
    } else {
      out.writeInt(1 + change.value.length)
      out.writeByte(RunFormat.Put)
      out.write(change.value)
    }
  }

  /** Writes a local file. */
  def write(file: File, changes: Iterator[Change]): RunStatistics =
    try {
      val out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file), Buffer))
      try {
        val statistics = new RunStatistics
        changes.foreach { change =>
          write(out, change)
          statistics.add(change)
        }
        statistics
      } finally out.close()
    } catch { case e: IOException => throw new LocalStorageException(file, e) }

  /** The entries of the families whose group is in the range; the file goes when the cursor does. */
  def read(file: File, families: Set[Int], groups: KeyGroupRange): RunCursor = {
    val in = new BufferedInputStream(new FileInputStream(file), Buffer)
    new Cursor(in, file.length, families, groups) {
      override def close(): Unit = {
        super.close()
        file.delete()
        ()
      }
    }
  }

  def read(content: Array[Byte], families: Set[Int], groups: KeyGroupRange): RunCursor =
    new Cursor(new ByteArrayInputStream(content), content.length.toLong, families, groups)

  private class Cursor(
      stream: InputStream,
      length: Long,
      families: Set[Int],
      groups: KeyGroupRange
  ) extends RunCursor {
    private val in = new DataInputStream(stream)
    private var left = length
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
      while (change == null && left > 0) {
        val entry = RunFormat.change(nextBytes(), nextBytes())
        if (families.contains(entry.family) && groups.contains(entry.group)) change = entry
      }
      change
    }

    private def nextBytes(): Array[Byte] = {
      val bytes = new Array[Byte](in.readInt())
      in.readFully(bytes)
      left -= 4 + bytes.length
      bytes
    }
  }
}
