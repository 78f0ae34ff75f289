package keystate.checkpoint

import java.io.FileNotFoundException
import java.io.{ByteArrayOutputStream, DataInputStream, DataOutputStream, EOFException}
import java.nio.charset.StandardCharsets.US_ASCII

import keystate.errors.{
  CorruptSourceFileException, MissingSourceFileException, UnsupportedFormatException
}
import keystate.files.{CheckpointStorage, Crc32c}

/** The write-ahead log of a stateful source: one file for each batch, `<batch>_<id>.source`, with
  * the batch's rows and the source's state after them. It is written before Spark learns of the
  * batch and appears whole or not at all.
  *
  * Each writer makes its own id, and Spark's offset names the id. So if two drivers write the same
  * batch, the file that Spark's offset names counts, and every replay has the same rows. A file
  * that no offset names never counts. Numbers are big-endian.
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
  *
  * Reading throws [[MissingSourceFileException]] for a missing file, [[UnsupportedFormatException]]
  * for a file of another format, and [[CorruptSourceFileException]] for a file that differs from
  * what was written.
  */
final class SourceSegments(storage: CheckpointStorage) {
  import SourceSegments._

  /** The last batch that this object committed. */
  private var committed: Option[SegmentName] = None

  /** The files there are, in the order of their batches, and of one batch by id. */
  def list(): Seq[SegmentName] =
    storage.list(".").flatMap(f => parse(f.name)).sortBy(name => (name.batch, name.id))

  /** Deletes a file. That it is not there is no error. */
  private def delete(name: SegmentName): Unit = storage.delete(name.file)

  /** Commits the batch of this file: deletes earlier files, whose rows are no longer needed. The
    * file stays, because it has the state. The first call also deletes files of earlier runs and
    * other drivers.
    */
  def commit(last: SegmentName): Unit = {
    committed match {
      case None => deleteAllUntil(last)
      case Some(before) => if (before != last) delete(before)
    }
    committed = Some(last)
  }

  /** Deletes all files of this batch and of earlier ones except `last`: also incomplete files and
    * files of other drivers. A driver that still writes one of them is too late.
    */
  def deleteAllUntil(last: SegmentName): Unit = {
    val old = storage.list(".").map(_.name).filter { file =>
      file != last.file && batchOf(file).exists(_ <= last.batch)
    }
    storage.deleteAll(old)
  }

  /** Writes a file whole.
    *
    * @param chunks
    *   Arrow IPC streams
    */
  def write(name: SegmentName, header: Array[Byte], chunks: Seq[Array[Byte]]): Unit =
    CheckpointStorage.write(storage, name.file) { out =>
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

  /** Reads a file's header, and where its rows are. Its rows are not read. */
  def read(name: SegmentName): SourceSegment = reading(name) { in =>
    val copy = new ByteArrayOutputStream
    val kept = new DataOutputStream(copy)
    def int(): Int = {
      val value = in.readInt()
      kept.writeInt(value)
      value
    }
    // A damaged length must not take more memory than there is.
    def length(unit: Int): Int = {
      val value = int()
      if (value < 0) throw corrupt(name, s"it tells the length $value")
      if (value.toLong * unit > Int.MaxValue) throw new EOFException
      value
    }
    val magic = in.readNBytes(Magic.length)
    kept.write(magic)
    if (!java.util.Arrays.equals(magic, Magic))
      throw corrupt(name, "it does not begin as a source's file does")
    val format = int()
    val header = in.readNBytes(length(1))
    kept.write(header)
    val sizes = Seq.newBuilder[(Int, Int)]
    (0 until length(8)).foreach(_ => sizes += ((length(1), int())))
    if (in.readInt() != Crc32c.of(copy.toByteArray)) throw corrupt(name, "its checksum is wrong")
    if (format != Format)
      throw new UnsupportedFormatException(describe(name), format, Format)
    val known = sizes.result()
    val offsets = known.scanLeft(copy.size + 4L)((at, size) => at + size._1)
    val chunks = known.zip(offsets).map { case ((length, crc), offset) =>
      SourceChunk(name, offset, length, crc)
    }
    SourceSegment(header, chunks)
  }

  /** Reads the Arrow IPC stream of a chunk. */
  def rows(chunk: SourceChunk): Array[Byte] = reading(chunk.segment) { in =>
    in.skipNBytes(chunk.offset)
    val bytes = in.readNBytes(chunk.length)
    if (bytes.length < chunk.length) throw new EOFException
    if (Crc32c.of(bytes) != chunk.crc)
      throw corrupt(chunk.segment, "the checksum of its rows is wrong")
    bytes
  }

  private def reading[T](name: SegmentName)(read: DataInputStream => T): T =
    try {
      val in = new DataInputStream(storage.open(name.file))
      try read(in)
      finally in.close()
    } catch {
      case e: FileNotFoundException => throw new MissingSourceFileException(describe(name), e)
      case e: EOFException => throw corrupt(name, "it is too short", e)
    }

  private def corrupt(name: SegmentName, detail: String, cause: Throwable = null) =
    new CorruptSourceFileException(describe(name), detail, cause)

  private def describe(name: SegmentName): String = storage.describe(name.file)
}

/** The parts of a source file's name.
  *
  * @param id
  *   the writer's own
  */
final case class SegmentName(batch: Long, id: String) {
  def file: String = s"${batch}_$id.source"
}

/** A source's file without its rows.
  *
  * @param header
  *   JSON in UTF-8
  */
final case class SourceSegment(header: Array[Byte], chunks: Seq[SourceChunk])

/** Rows in a source's file.
  *
  * @param offset
  *   where in the file they begin, in bytes, as is `length`
  * @param crc
  *   CRC32C of these bytes
  */
final case class SourceChunk(segment: SegmentName, offset: Long, length: Int, crc: Int)

object SourceSegments {

  /** The number of the format. */
  final val Format = 1

  private val Magic = "KEYSTSRC".getBytes(US_ASCII)
  private val Name = """(\d+)_([0-9a-f-]+)\.source""".r

  /** The batch in the name of a file, complete or not. */
  private def batchOf(file: String): Option[Long] =
    parse(CheckpointStorage.unfinished(file).getOrElse(file)).map(_.batch)

  /** The batch and id in the name of a source's file; None for other names, and for ids that no
    * source makes.
    */
  def parse(name: String): Option[SegmentName] = name match {
    case Name(batch, id) => batch.toLongOption.map(SegmentName(_, id))
    case _ => None
  }
}
