package org.apache.spark.sql.keystate.kafka

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, EOFException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{BufferUnderflowException, ByteBuffer}
import java.util.zip.{CRC32C, CheckedInputStream, CheckedOutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.DamagedFileException
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CommitNotes}

/** A file with rows that are to be published.
  *
  * @param checksum
  *   the CRC-32C of its content
  */
private[kafka] final case class StagedFile(name: String, rows: Long, bytes: Long, checksum: Long)

/** The staged files of a checkpoint, in its folder `_keystate/staged`. A name begins with the
  * micro-batch and ends with the attempt's own id, so no two attempts write the same file.
  */
private[kafka] final class StagedFiles(checkpoint: Path, conf: Configuration) {
  import StagedFiles._

  private val folder = new Path(checkpoint, CommitNotes.StagedFolder)
  private lazy val files = CheckpointFiles.create(folder, conf)

  def names: Set[String] = CheckpointFiles.names(files, folder).toSet

  def delete(name: String): Unit = files.delete(new Path(folder, name))

  /** A new file, which is there once it is closed. */
  def create(name: String): Output = {
    files.mkdirs(folder)
    new Output(name)
  }

  final class Output private[StagedFiles] (name: String) {
    private val file = files.createAtomic(new Path(folder, name), overwriteIfPossible = false)
    private val checked = new CheckedOutputStream(file, new CRC32C)
    private val out = new BufferedOutputStream(checked, BufferSize)
    private var record = ByteBuffer.allocate(1024)
    private var rows, bytes = 0L

    def add(row: KafkaRow): Unit = {
      val headers = row.headers.map { case (key, value) => (key.getBytes(UTF_8), value) }
      val topic = row.topic.getBytes(UTF_8)
      val fields = Seq(topic, row.key, row.value) ++ headers.flatMap { case (k, v) => Seq(k, v) }
      val size = (3 + fields.size) * Integer.BYTES + fields.map(lengthOf).sum
      if (record.capacity < size) record = ByteBuffer.allocate(2 * size)
      record.clear()
      record.putInt(size - Integer.BYTES)
      record.putInt(if (row.partition == null) -1 else row.partition)
      record.putInt(headers.size)
      fields.foreach { field =>
        record.putInt(if (field == null) -1 else field.length)
        if (field != null) record.put(field)
      }
      out.write(record.array, 0, size)
      rows += 1
      bytes += size
    }

    private def lengthOf(field: Array[Byte]) = if (field == null) 0 else field.length

    def close(): StagedFile = {
      out.flush()
      file.close()
      StagedFile(name, rows, bytes, checked.getChecksum.getValue)
    }

    def cancel(): Unit = file.cancel()
  }

  /** The rows of a file. After the last one an error is thrown if they are not those that were
    * written.
    */
  def read(staged: StagedFile): Iterator[KafkaRow] = {
    val path = new Path(folder, staged.name)
    val source = files.open(path)
    val checked = new CheckedInputStream(source, new CRC32C)
    val in = new DataInputStream(new BufferedInputStream(checked, BufferSize))
    def damaged(what: String) = {
      source.close()
      new DamagedFileException(s"$path", what)
    }

    def readRow(): KafkaRow = {
      val size = in.readInt()
      if (size < 0 || size > staged.bytes) throw damaged(s"it has a row of $size bytes")
      val record = ByteBuffer.wrap(in.readNBytes(size))
      def field(): Array[Byte] = record.getInt() match {
        case -1 => null
        case length if length > record.remaining => throw damaged(s"a field has $length bytes")
        case length =>
          val bytes = new Array[Byte](length)
          record.get(bytes)
          bytes
      }
      val partition = record.getInt()
      val headers = record.getInt()
      val (topic, key, value) = (new String(field(), UTF_8), field(), field())
      KafkaRow(
        topic,
        if (partition < 0) null else partition,
        key,
        value,
        Seq.fill(headers)((new String(field(), UTF_8), field()))
      )
    }

    new Iterator[KafkaRow] {
      private var left = staged.rows
      override def hasNext: Boolean = {
        if (left == 0) {
          left = -1
          if (in.read() >= 0) throw damaged("it has more than was written")
          if (checked.getChecksum.getValue != staged.checksum)
            throw damaged("its checksum is not the recorded one")
          source.close()
        }
        left > 0
      }
      override def next(): KafkaRow =
        try {
          left -= 1
          readRow()
        } catch {
          case e @ (_: EOFException | _: BufferUnderflowException |
              _: NegativeArraySizeException) =>
            throw damaged(s"a row ends too early: $e")
        }
    }
  }
}

private[kafka] object StagedFiles {
  private final val BufferSize = 1 << 16

  def name(batch: Long, attempt: String): String = s"$batch-$attempt"

  /** The micro-batch of a file. None if the name is not that of a staged file. */
  def batchOf(name: String): Option[Long] = name.takeWhile(_ != '-').toLongOption
}
