package org.apache.spark.sql.keystate.source

import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.arrow.ArrowConverters
import org.apache.spark.util.SerializableConfiguration

import keystate.checkpoint.{SourceChunk, SourceSegments}
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** What one subtask of a source collected for a micro-batch. */
private[keystate] final case class SourcePartition(chunk: SourceChunk) extends InputPartition

/** Reads rows from a source's log. It runs in the executors, and needs no Python. */
private[keystate] final class SourceReaderFactory(
    location: String,
    conf: Broadcast[SerializableConfiguration]
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val storage = new SparkCheckpointStorage(new Path(location), conf.value.value)
    val bytes = new SourceSegments(storage).rows(partition.asInstanceOf[SourcePartition].chunk)
    val (rows, _) = ArrowConverters.fromIPCStream(bytes)
    new PartitionReader[InternalRow] {
      override def next(): Boolean = rows.hasNext
      override def get(): InternalRow = rows.next()
      override def close(): Unit = rows.close()
    }
  }
}
