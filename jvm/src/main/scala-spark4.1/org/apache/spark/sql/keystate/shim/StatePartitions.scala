package org.apache.spark.sql.keystate.shim

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.datasources.v2.state.{
  StateScan, StateSourceOptions, StateStoreInputPartition
}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.runtime.StreamingCheckpointConstants.DIR_NAME_OFFSETS
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.internal.SQLConf.SHUFFLE_PARTITIONS
import org.apache.spark.sql.types.StructType

/** Lets the `statestore` reader read a query that was rescaled. Spark 4.1 reads a partition for each
  * folder of the operator, and a folder stays after a rescale to fewer. From 4.2 on it goes by the
  * number of partitions in the micro-batch's entry in the offset log, as is done here.
  */
private[keystate] object StatePartitions extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    plan.transform { case exec @ BatchScanExec(_, scan: StateScan, _, _, _, _) =>
      exec.copy(scan = new OfBatch(scan))
    }

  private final case class OfBatch(scan: StateScan) extends Scan with Batch {
    override def readSchema(): StructType = scan.readSchema()
    override def description(): String = scan.description()
    override def toBatch: Batch = this
    override def createReaderFactory(): PartitionReaderFactory = scan.createReaderFactory()

    override def planInputPartitions(): Array[InputPartition] = {
      val folders = scan.planInputPartitions().collect { case it: StateStoreInputPartition => it }
      val partitions = folders.headOption.flatMap(first => ofBatch(first.sourceOptions))
      folders.filter(it => partitions.forall(it.partition < _)).toArray
    }
  }

  /** The number of partitions of the micro-batch that is read. */
  private def ofBatch(options: StateSourceOptions): Option[Int] = {
    val log = new Path(options.resolvedCpLocation, DIR_NAME_OFFSETS)
    new OffsetSeqLog(SparkSession.active, log.toString)
      .get(options.batchId)
      .flatMap(_.metadata)
      .flatMap(_.conf.get(SHUFFLE_PARTITIONS.key))
      .map(_.toInt)
  }
}
