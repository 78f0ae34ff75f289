package org.apache.spark.sql.keystate.checkpoint

import java.nio.ByteBuffer

import scala.util.Using

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The timers of an operator after a micro-batch, read by the driver. Spark's `statestore` reader
  * can't read them: it looks for timers under names of its own.
  */
private[keystate] final class StoredTimers(
    checkpoint: QueryCheckpoint,
    operator: Long,
    keySchema: StructType
) {
  private val schema = new StructType()
    .add("partition_id", IntegerType)
    .add("key", keySchema)
    .add("time_domain", StringType)
    .add("expiration_timestamp_ms", LongType)

  def toDF(session: SparkSession, number: Long): DataFrame = {
    val batch = checkpoint.batch(number)
    val rows = checkpoint.stores(operator).flatMap { store =>
      (0 until batch.partitions).flatMap { partition =>
        val manifest = checkpoint.manifest(batch, operator, partition, store)
        manifest.families.filter(_.properties.get("kind").contains("timers")).flatMap { family =>
          val reader = checkpoint.reader(operator, partition, store)
          Using.resource(reader.entries(manifest, family)) { entries =>
            entries.map(entry => row(partition, entry.key)).toVector
          }
        }
      }
    }
    Dataset.ofRows(session, LocalRelation(DataTypeUtils.toAttributes(schema), rows))
  }

  /** docs/file-format.md has the format of the timers' entry keys. */
  private def row(partition: Int, entry: Array[Byte]): InternalRow = {
    val buffer = ByteBuffer.wrap(entry)
    val domain = if (buffer.get() == 0) "EVENT_TIME" else "PROCESSING_TIME"
    val time = buffer.getLong() ^ Long.MinValue
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    val key = new UnsafeRow(keySchema.length)
    key.pointTo(bytes, bytes.length)
    InternalRow(partition, key, UTF8String.fromString(domain), time)
  }
}
