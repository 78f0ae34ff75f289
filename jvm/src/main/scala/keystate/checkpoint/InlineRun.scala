package keystate.checkpoint

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.nio.ByteBuffer
import java.util.zip.CRC32C

import keystate.backend.Change
import keystate.keygroup.KeyGroupRange

/** A run small enough to be part of the version file: for each entry
  * `[int32 key length][key][int32 value length][value]`, key and value as in [[RunFormat]].
  */
private[checkpoint] object InlineRun {

  /** The run, or None when it would be longer than `limit` bytes. */
  def encode(
      changes: Iterator[Change],
      limit: Long,
      version: Long,
      id: Option[String]
  ): Option[Run] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    val statistics = new RunStatistics
    while (changes.hasNext && bytes.size <= limit) {
      val change = changes.next()
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
      statistics.add(change)
    }
    Option.when(bytes.size <= limit) {
      val content = bytes.toByteArray
      val crc = new CRC32C
      crc.update(content)
      Run(
        source = new InlineSource(content),
        entries = statistics.entries,
        bytes = content.length.toLong,
        groups = statistics.groups,
        crc32c = crc.getValue.toInt,
        version = version,
        id = id
      )
    }
  }

  def read(source: InlineSource, families: Set[Int], groups: KeyGroupRange): RunCursor = {
    val buffer = ByteBuffer.wrap(source.content)
    val changes = Iterator
      .continually(buffer)
      .takeWhile(_.hasRemaining)
      .map(_ => RunFormat.change(nextBytes(buffer), nextBytes(buffer)))
      .filter(change => families.contains(change.family) && groups.contains(change.group))
    new RunCursor {
      override def hasNext: Boolean = changes.hasNext
      override def next(): Change = changes.next()
      override def close(): Unit = ()
    }
  }

  private def nextBytes(buffer: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](buffer.getInt())
    buffer.get(bytes)
    bytes
  }
}
