package keystate.version

import java.io.OutputStream

import net.jpountz.lz4.LZ4FrameOutputStream
import net.jpountz.lz4.LZ4FrameOutputStream.BLOCKSIZE.SIZE_64KB
import net.jpountz.lz4.LZ4FrameOutputStream.FLG.Bits.BLOCK_INDEPENDENCE

import keystate.backend.{ChangeSink, RunStatistics}
import keystate.files.Summed

/** Writes a [[PlainRun]] compressed, in sections that can be read separately. Each section is a
  * frame of LZ4, with independent blocks of 64 KiB and without checksums of its own. A new section
  * starts where the family or the group changes, if the current one is long enough. Several
  * sections are followed by a [[RunIndex]] with their positions.
  */
private[keystate] object SectionedRun {

  /** The minimum bytes of a section, before compression: small compared with a partition of a large
    * state, but large enough to compress well.
    */
  final val SectionBytes = 256 * 1024

  /** Writes a run, and leaves `out` open. There must be at least one change.
    *
    * @param sectionBytes
    *   how long a section is at least, in bytes before compression
    * @param changes
    *   hands all changes to the sink
    */
  def write(out: OutputStream, sectionBytes: Int, changes: ChangeSink => Unit): RunStatistics = {
    val sink = new Sink(out, sectionBytes)
    changes(sink)
    sink.finish()
  }

  private final class Sink(out: OutputStream, sectionBytes: Int) extends ChangeSink {
    private val entries = new PlainRun.Entries(PlainRun.Block, _ => compress())
    private val sections = Vector.newBuilder[Section]
    // The section that is being written: its first family and group, its offset in the file, and
    // how many bytes of it were compressed.
    private var firstFamily, firstGroup = -1
    private var offset, length = 0L
    private var bytes: Summed = _
    private var frame: LZ4FrameOutputStream = _
    private var lastFamily, lastGroup = -1

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
      if (group != lastGroup || family != lastFamily) begin(family, group)
      entries.add(family, group, key, keyStart, keyLength, value, valueStart, valueLength)
    }

    def finish(): RunStatistics = {
      endSection()
      val all = sections.result()
      if (all.size > 1) out.write(RunIndex.encode(all))
      entries.statistics
    }

    private def begin(family: Int, group: Int): Unit = {
      if (frame != null && length + entries.size >= sectionBytes) endSection()
      if (frame == null) {
        firstFamily = family
        firstGroup = group
        length = 0
        bytes = new Summed(out)
        frame = new LZ4FrameOutputStream(bytes, SIZE_64KB, BLOCK_INDEPENDENCE)
      }
      lastFamily = family
      lastGroup = group
    }

    private def compress(): Unit = {
      length += entries.size
      entries.moveTo(frame)
    }

    private def endSection(): Unit = {
      compress()
      frame.close()
      frame = null
      sections += Section(firstFamily, firstGroup, offset, bytes.length, bytes.crc32c)
      offset += bytes.length
    }
  }
}
