package org.apache.spark.sql.keystate.kafka

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream}
import java.nio.charset.StandardCharsets.UTF_8
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
    private val out = new DataOutputStream(new BufferedOutputStream(checked, BufferSize))
    private var rows = 0L

    def add(row: KafkaRow): Unit = {
      writeBytes(row.topic.getBytes(UTF_8))
      out.writeInt(if (row.partition == null) -1 else row.partition)
      writeBytes(row.key)
      writeBytes(row.value)
      out.writeInt(row.headers.size)
      row.headers.foreach { case (key, value) =>
        writeBytes(key.getBytes(UTF_8))
        writeBytes(value)
      }
      rows += 1
    }

    private def writeBytes(bytes: Array[Byte]): Unit =
      if (bytes == null) out.writeInt(-1)
      else {
        out.writeInt(bytes.length)
        out.write(bytes)
      }

    def close(): StagedFile = {
      out.flush()
      file.close()
      // More than an Int can count.
      StagedFile(name, rows, file.getPos, checked.getChecksum.getValue)
    }

    def cancel(): Unit = file.cancel()
  }

  /** The rows of a file. After the last one an error is thrown if they are not those that were
    * written.
    */
  def read(staged: StagedFile): Iterator[KafkaRow] = {
    val path = new Path(folder, staged.name)
    val source = files.open(path)
    val checked = new CheckedInputStream(new BufferedInputStream(source, BufferSize), new CRC32C)
    val in = new DataInputStream(checked)
    def damaged(what: String) = new DamagedFileException(s"$path", what)

    def readBytes(): Array[Byte] = in.readInt() match {
      case -1 => null
      case length if length >= 0 && length <= staged.bytes => in.readNBytes(length)
      case length => throw damaged(s"it has a field of $length bytes")
    }

    def readRow(): KafkaRow = {
      val topic = new String(readBytes(), UTF_8)
      val partition = in.readInt()
      val (key, value) = (readBytes(), readBytes())
      val headers = in.readInt()
      KafkaRow(
        topic,
        if (partition < 0) null else partition,
        key,
        value,
        (0 until headers).map(_ => (new String(readBytes(), UTF_8), readBytes()))
      )
    }

    new Iterator[KafkaRow] {
      private var left = staged.rows
      override def hasNext: Boolean = {
        if (left == 0) {
          left = -1
          source.close()
          if (checked.getChecksum.getValue != staged.checksum)
            throw damaged("its checksum is not the recorded one")
        }
        left > 0
      }
      override def next(): KafkaRow =
        try {
          left -= 1
          readRow()
        } catch {
          case e: java.io.EOFException =>
            source.close()
            throw damaged(s"it ends too early: ${e.getMessage}")
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
