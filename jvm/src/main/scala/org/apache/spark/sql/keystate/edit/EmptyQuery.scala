package org.apache.spark.sql.keystate.edit

import java.util.UUID

import scala.annotation.nowarn
import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.{BooleanType, StructType}

import keystate.config.Settings
import keystate.files.StoreLocation
import keystate.version.Manifest
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.plan.{KeyedProcess, OperatorInput}
import org.apache.spark.sql.keystate.savepoint.CheckpointDraft
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.state.DueTimers

/** A query with one operator that has had one micro-batch without rows. So Spark and Keystate
  * themselves write all records of an operator, and its checkpoint provides them.
  *
  * @param keys
  *   a stream with the key columns, without rows
  */
private[keystate] final class EmptyQuery(
    session: SparkSession,
    keys: OperatorInput,
    spec: OperatorSpec
) {
  import EmptyQuery._

  /** Runs it with a checkpoint next to `target`, which is deleted at the end.
    *
    * @param use
    *   takes the checkpoint and its manifests, in the order of partitions
    */
  def run[T](target: Path, partitions: Int, settings: (String, String)*)(
      use: (QueryCheckpoint, Seq[Manifest]) => T
  ): T = {
    val place = CheckpointDraft.beside(target, s"${UUID.randomUUID}.empty")
    try {
      start(place, settings :+ (SQLConf.SHUFFLE_PARTITIONS.key -> partitions.toString))
      Using.resource(new QueryCheckpoint(session.sessionState.newHadoopConf(), place.toString)) {
        checkpoint =>
          val batch = checkpoint.batch(checkpoint.lastBatch)
          val manifests = (0 until batch.partitions).map {
            checkpoint.manifest(batch, Operator, _, StoreLocation.DefaultStore)
          }
          use(checkpoint, manifests)
      }
    } finally
      place.getFileSystem(session.sessionState.newHadoopConf()).delete(place, true): Unit
  }

  @nowarn("cat=deprecation") // Spark has no other trigger that surely runs one micro-batch
  private def start(place: Path, settings: Seq[(String, String)]): Unit = {
    val own = session.cloneSession()
    // Real-time mode may keep it under another name.
    own.conf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, Settings.ProviderClass)
    settings.foreach { case (key, value) => own.conf.set(key, value) }
    val nothing = new StructType().add("nothing", BooleanType)
    val plan = KeyedProcess.of(NoFunction, keys, None, nothing, spec)
    val query = ClassicDataset
      .ofRows(own, plan)
      .writeStream
      .format("noop")
      .option("checkpointLocation", place.toString)
      .trigger(Trigger.Once())
      .start()
    JobErrors.unwrapped(query.awaitTermination())
  }
}

private[keystate] object EmptyQuery {

  /** The number of its operator. */
  val Operator = 0L

  private object NoFunction extends OperatorFunction with FunctionRunner {
    override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

    override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass =
      new FunctionPass {
        // Read to its end, as a run is.
        override def output: Iterator[InternalRow] = rows.filter(_ => false)
        override def updated: Long = 0
        override def removed: Long = 0
      }
  }
}
