package org.apache.spark.sql.keystate.source

import java.util.{EnumSet, Set => JSet}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A stateful source, as a table to stream from. Spark's own table for Python data sources is not
  * used, because it does not pass on the checkpoint's place, which is needed for the log.
  */
private[keystate] final case class StatefulSource(
    name: String,
    rows: StructType,
    function: SourceFactory,
    limits: AvailableNowLimits
) extends Table
    with SupportsRead
    with ScanBuilder
    with Scan {
  override def capabilities(): JSet[TableCapability] = EnumSet.of(TableCapability.MICRO_BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = this
  override def build(): Scan = this
  override def schema(): StructType = rows
  override def readSchema(): StructType = rows
  override def description(): String = name
  override def toString: String = name

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream =
    new SourceStream(this, checkpointLocation)

  def toDF(session: SparkSession): DataFrame = {
    val columns = DataTypeUtils.toAttributes(rows)
    val options = CaseInsensitiveStringMap.empty()
    ClassicDataset.ofRows(
      session,
      StreamingRelationV2(None, name, this, options, columns, None, None, None)
    )
  }
}

/** How much a query with the trigger availableNow takes from a source that does not end by itself.
  */
private[keystate] final case class AvailableNowLimits(rows: Long, millis: Long)
