package keystate.checkpoint

import java.io.{ByteArrayOutputStream, DataInputStream, DataOutputStream, EOFException}
import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.US_ASCII

/** The write-ahead log of a stateful source: one file a batch, `<batch>.source`, with the batch's
  * rows and the source's state after them. It is written before Spark learns of the batch and
  * appears whole or not at all, so a batch is always replayed with the same rows, and the source
  * goes on from where its last row was. Numbers are big-endian.
  *
  * {{{
  * "KEYSTSRC"            8 bytes
  * format                int32, 1
  * length                int32
  * header                `length` bytes of JSON: parallelism, states
  * count                 int32, of chunks
  * chunks                for each int32 length, int32 crc32c
  * crc32c                int32, of all bytes before
  * rows                  the chunks one after the other, each an Arrow IPC stream
  * }}}
  */
final class SourceSegments(storage: CheckpointStorage) {
  import SourceSegments._

  def exists(batch: Long): Boolean = storage.exists(name(batch))

  /** The batches that there are, in order. */
  def list(): Seq[Long] = storage.list(".").flatMap(f => parse(f.name)).sorted

  def delete(batch: Long): Unit = storage.delete(name(batch))

  def write(batch: Long, header: Array[Byte], chunks: Seq[Array[Byte]]): Unit =
    CheckpointStorage.write(storage, name(batch)) { out =>
      val bytes = new ByteArrayOutputStream
      val data = new DataOutputStream(bytes)
      data.write(Magic)
      data.writeInt(Format)
      data.writeInt(header.length)
      data.write(header)
      data.writeInt(chunks.length)
      chunks.foreach { chunk =>
        data.writeInt(chunk.length)
        data.writeInt(Crc32c.of(chunk))
      }
      data.writeInt(Crc32c.of(bytes.toByteArray))
      bytes.writeTo(out)
      chunks.foreach(chunk => out.write(chunk))
    }

  /** The header and where the rows are. */
  def read(batch: Long): SourceSegment = reading(batch) { in =>
    val copy = new ByteArrayOutputStream
    val kept = new DataOutputStream(copy)
    def int(): Int = {
      val value = in.readInt()
      kept.writeInt(value)
      value
    }
    val magic = in.readNBytes(Magic.length)
    kept.write(magic)
    if (!java.util.Arrays.equals(magic, Magic))
      throw corrupt(batch, "it does not begin as a source's file does")
    val format = int()
    if (format > Format)
      throw new UnsupportedSourceFormatException(describe(batch), format, Format)
    val header = in.readNBytes(int())
    kept.write(header)
    val sizes = Seq.fill(int())((int(), int()))
    if (in.readInt() != Crc32c.of(copy.toByteArray)) throw corrupt(batch, "its checksum is wrong")
    val offsets = sizes.scanLeft(copy.size + 4L)((at, size) => at + size._1)
    val chunks = sizes.zip(offsets).map { case ((length, crc), offset) =>
      SourceChunk(batch, offset, length, crc)
    }
    SourceSegment(header, chunks)
  }

  /** The Arrow IPC stream of a chunk. */
  def rows(chunk: SourceChunk): Array[Byte] = reading(chunk.batch) { in =>
    in.skipNBytes(chunk.offset)
    val bytes = in.readNBytes(chunk.length)
    if (bytes.length < chunk.length) throw new EOFException
    if (Crc32c.of(bytes) != chunk.crc)
      throw corrupt(chunk.batch, "the checksum of its rows is wrong")
    bytes
  }

  private def reading[T](batch: Long)(read: DataInputStream => T): T =
    try {
      val in = new DataInputStream(storage.open(name(batch)))
      try read(in)
      finally in.close()
    } catch {
      case e: FileNotFoundException => throw new MissingSourceFileException(describe(batch), e)
      case e: EOFException => throw corrupt(batch, "it is too short", e)
    }

  private def corrupt(batch: Long, detail: String, cause: Throwable = null) =
    new CorruptSourceFileException(describe(batch), detail, cause)

  private def describe(batch: Long): String = storage.describe(name(batch))
}

final case class SourceSegment(header: Array[Byte], chunks: Seq[SourceChunk])

final case class SourceChunk(batch: Long, offset: Long, length: Int, crc: Int)

object SourceSegments {
  final val Format = 1

  private val Magic = "KEYSTSRC".getBytes(US_ASCII)
  private val Name = """(\d+)\.source""".r

  private def name(batch: Long): String = s"$batch.source"

  private def parse(name: String): Option[Long] = name match {
    case Name(batch) => batch.toLongOption
    case _ => None
  }
}
