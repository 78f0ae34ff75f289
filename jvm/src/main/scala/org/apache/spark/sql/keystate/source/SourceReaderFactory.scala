package org.apache.spark.sql.keystate.source

import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.arrow.ArrowConverters
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

import keystate.checkpoint.{SourceChunk, SourceSegments}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** The rows that one subtask of a source collected for a micro-batch. */
private[keystate] final case class SourcePartition(chunk: SourceChunk) extends InputPartition

/** Reads rows from a source's log. It runs in the executors, and needs no Python. The rows of a
  * batch that was started before a restart may have other columns than the source has now.
  *
  * @param columns
  *   the source's present columns
  */
private[keystate] final class SourceReaderFactory(
    source: String,
    columns: StructType,
    location: String,
    conf: Broadcast[SerializableConfiguration]
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val storage = new SparkCheckpointStorage(new Path(location), conf.value.value)
    val chunk = partition.asInstanceOf[SourcePartition].chunk
    val (rows, stored) =
      ArrowConverters.fromIPCStream(new SourceSegments(storage).rows(chunk))
    val select = new SourceColumns(columns).from(stored).getOrElse {
      rows.close()
      throw KeystateErrors.sourceColumns(
        source,
        storage.describe(chunk.segment.file),
        SourceColumns.plain(stored).toDDL,
        SourceColumns.plain(columns).toDDL
      )
    }
    new PartitionReader[InternalRow] {
      override def next(): Boolean = rows.hasNext
      override def get(): InternalRow = select(rows.next())
      override def close(): Unit = rows.close()
    }
  }
}
