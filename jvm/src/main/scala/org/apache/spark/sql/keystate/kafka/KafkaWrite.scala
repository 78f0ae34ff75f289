package org.apache.spark.sql.keystate.kafka

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.connector.write.{DataWriter, PhysicalWriteInfo, WriterCommitMessage}
import org.apache.spark.util.SerializableConfiguration

/** Stages a micro-batch's rows.
  *
  * @param stage
  *   takes the files of the attempts that count, in the order of their partitions, before the batch
  *   is in the commit log
  */
private[kafka] final class KafkaWrite(
    rows: KafkaRows,
    checkpoint: Path,
    conf: Broadcast[SerializableConfiguration],
    stage: (Long, Seq[StagedFile]) => Unit
) extends StreamingWrite {
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory =
    new StagingWriterFactory(rows, s"$checkpoint", conf)

  /** Attempts write files of their own, and the driver takes one of each partition. */
  override def useCommitCoordinator(): Boolean = false

  override def commit(epochId: Long, messages: Array[WriterCommitMessage]): Unit =
    stage(epochId, messages.toSeq.collect { case Staged(Some(file)) => file })

  // Later batches delete what is left.
  override def abort(epochId: Long, messages: Array[WriterCommitMessage]): Unit = ()
}

/** What an attempt has written; None if there were no rows. */
private final case class Staged(file: Option[StagedFile]) extends WriterCommitMessage

private final class StagingWriterFactory(
    rows: KafkaRows,
    checkpoint: String,
    conf: Broadcast[SerializableConfiguration]
) extends StreamingDataWriterFactory {
  override def createWriter(
      partitionId: Int,
      taskId: Long,
      epochId: Long
  ): DataWriter[InternalRow] = {
    val files = new StagedFiles(new Path(checkpoint), conf.value.value)
    new StagingWriter(rows, files, StagedFiles.name(epochId, s"${UUID.randomUUID}"))
  }
}

private final class StagingWriter(rows: KafkaRows, files: StagedFiles, name: String)
    extends DataWriter[InternalRow] {
  private var out: Option[StagedFiles#Output] = None

  override def write(row: InternalRow): Unit = {
    if (out.isEmpty) out = Some(files.create(name))
    out.get.add(rows.read(row))
  }

  override def commit(): WriterCommitMessage = {
    val file = out.map(_.close())
    out = None
    Staged(file)
  }

  override def abort(): Unit = close()

  override def close(): Unit = {
    out.foreach(_.cancel())
    out = None
  }
}
