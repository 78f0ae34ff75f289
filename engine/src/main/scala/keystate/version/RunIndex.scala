package keystate.version

import java.nio.{ByteBuffer, ByteOrder}

import keystate.files.Crc32c
import keystate.keygroup.KeyGroupRange

/** Part of a run file, with whole entries: from those of this family and group on, until before the
  * next section's first family and group.
  *
  * @param family
  *   the family of its first entry; likewise `group`
  * @param offset
  *   its start in the file, in bytes
  * @param length
  *   its length in the file, in bytes
  * @param crc32c
  *   the checksum of these bytes
  */
private[keystate] final case class Section(
    family: Int,
    group: Int,
    offset: Long,
    length: Long,
    crc32c: Int
) {

  /** The offset after the section. */
  def end: Long = offset + length
}

/** The positions of the sections in a run file. The index is at the file's end, as a skippable
  * frame of LZ4, which readers of LZ4 skip.
  *
  * {{{
  * [magic: 4 bytes][length of the rest: 4 bytes]                   little-endian, by LZ4's format
  * for each section [family: 2][group: 2][length: 8][CRC32C: 4]    big-endian from here on
  * [CRC32C of the sections above: 4][number of sections: 4]
  * }}}
  *
  * A section's length and CRC32C are those of its compressed bytes. A file without an index ends
  * with LZ4's end mark, four zero bytes; read as an index, they mean that there are no sections.
  */
private[keystate] object RunIndex {

  /** One of LZ4's sixteen numbers for skippable frames; it marks an index of this form. */
  private final val Magic = 0x184d2a5b
  private final val FrameBytes = 8
  private final val SectionBytes = 16
  private final val FooterBytes = 8

  /** The bytes of the index; the sections are all of a file, in their order. */
  def encode(sections: Seq[Section]): Array[Byte] = {
    val index = ByteBuffer.allocate(length(sections.size).toInt)
    index
      .order(ByteOrder.LITTLE_ENDIAN)
      .putInt(Magic)
      .putInt(index.capacity - FrameBytes)
      .order(ByteOrder.BIG_ENDIAN)
    sections.foreach { section =>
      index.putShort(section.family.toShort).putShort(section.group.toShort)
      index.putLong(section.length).putInt(section.crc32c)
    }
    index.putInt(crc32c(index.array)).putInt(sections.size).array
  }

  /** The length in bytes of the index of a file with this end; None if it has none. `decode` checks
    * that it is an index.
    */
  def lengthAtEnd(tail: Array[Byte]): Option[Int] =
    Option
      .when(tail.length >= 4)(length(ByteBuffer.wrap(tail).getInt(tail.length - 4)))
      .filter(bytes => bytes > length(0) && bytes <= Int.MaxValue)
      .map(_.toInt)

  /** The sections in an index; None if these bytes are no index of a file of this length. */
  def decode(index: Array[Byte], fileLength: Long): Option[Vector[Section]] = {
    val in = ByteBuffer.wrap(index)
    val count = (index.length - FrameBytes - FooterBytes) / SectionBytes
    def isIndex = count > 0 && length(count) == index.length &&
      in.order(ByteOrder.LITTLE_ENDIAN).getInt(0) == Magic &&
      in.getInt(4) == index.length - FrameBytes &&
      in.order(ByteOrder.BIG_ENDIAN).getInt(index.length - FooterBytes) == crc32c(index)
    if (!isIndex) None
    else {
      in.position(FrameBytes)
      var end = 0L
      val sections = Vector.fill(count) {
        val section =
          Section(in.getShort & 0xffff, in.getShort & 0xffff, end, in.getLong, in.getInt)
        end = section.end
        section
      }
      Option.when(end + index.length == fileLength)(sections)
    }
  }

  /** The sections of a file that can have entries of these families and groups. */
  def choose(
      sections: Vector[Section],
      families: Set[Int],
      groups: KeyGroupRange
  ): Vector[Section] = {
    val first = sections.map(section => place(section.family, section.group))
    val isWanted = first.zip(first.drop(1) :+ Long.MaxValue).map { case (from, until) =>
      families.exists { family =>
        place(family, groups.first) < until && place(family, groups.last) >= from
      }
    }
    sections.zip(isWanted).collect { case (section, true) => section }
  }

  private def place(family: Int, group: Int): Long = family.toLong << 16 | group

  private def length(sections: Int): Long =
    FrameBytes + SectionBytes.toLong * sections + FooterBytes

  /** The checksum of the sections' rows. */
  private def crc32c(index: Array[Byte]): Int =
    Crc32c.of(index, FrameBytes, index.length - FrameBytes - FooterBytes)
}
