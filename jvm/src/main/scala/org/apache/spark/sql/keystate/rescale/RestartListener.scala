package org.apache.spark.sql.keystate.rescale

import java.io.IOException
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{
  AsyncProgressTrackingMicroBatchExecution, MicroBatchExecution, StreamExecution
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

import keystate.config.Settings
import keystate.errors.{KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.files.{CheckpointOwner, CommittingSink}
import org.apache.spark.sql.keystate.realtime.RealTimeSession
import org.apache.spark.sql.keystate.shim.{RealTimeMode, StatefulPlanShim}
import org.apache.spark.sql.keystate.store.StoreConfig

/** Takes the checkpoint of a query that starts, so that no other driver goes on with it. Rescales
  * the checkpoint if the query is started with another `spark.sql.shuffle.partitions` than its
  * state has.
  *
  * Relies on `StreamExecution.runStream`: on the query's own thread it posts the started event
  * synchronously, before it reads the offset log and the commit log. The setting counts only if it
  * was set, not by its default. Relies on `StreamExecution.sparkSessionForStream`: it is the
  * query's own session, and Spark takes its settings once the log is read. The query may belong to
  * another session than the active one: Spark lists the queries of all sessions of a driver
  * (`SharedState.activeStreamingQueries`), each from before its thread starts. Spark only logs a
  * listener's exceptions. So a failure is kept with the checkpoint, and fails the query when it is
  * planned or writes its log.
  *
  * A [[CommittingSink]] begins here too.
  */
class RestartListener extends StreamingQueryListener with Logging {
  import RestartListener._

  /** The checkpoints of this driver's running queries, by run id. */
  private val running = new ConcurrentHashMap[UUID, Path]

  override def onQueryStarted(event: QueryStartedEvent): Unit =
    SparkSession.getActiveSession
      .orElse(SparkSession.getDefaultSession)
      .flatMap(any => Option(any.sharedState.activeStreamingQueries.get(event.id)))
      .foreach(start)

  private def start(query: StreamExecution): Unit = {
    val session = query.sparkSession
    val conf = session.sessionState.conf
    val checkpoint = new Path(query.resolvedCheckpointRoot)
    running.put(query.runId, checkpoint)
    try {
      // A query of Spark's own functions in real-time mode keeps Spark's provider.
      if (!RealTimeMode.isTrigger(query.trigger) || query.analyzedPlan.exists(isKeystates))
        RealTimeSession.giveProvider(query.sparkSessionForStream)
      def rescalingNow = new QueryRescaling(session, query.resolvedCheckpointRoot)
      val provider = rescalingNow.provider.getOrElse(RealTimeSession.provider(conf))
      // A query on another provider is left to Spark.
      if (provider == Settings.ProviderClass) {
        CheckpointOwner.take(checkpoint, session.sessionState.newHadoopConf(), nameOf(query.runId))
        // Sinks name by it what they write. All of the run's jobs are started by this thread.
        CheckpointOwner
          .placeOf(checkpoint)
          .foreach(session.sparkContext.setLocalProperty("keystate.owner", _))
        // The owner before may have written its log until now, so it is read again.
        val rescaling = rescalingNow
        val wanted = if (enabled(conf)) partitions(conf) else None
        try {
          val before = rescaling.run(wanted)
          val partitions = wanted.getOrElse(before)
          // There Spark takes it from here.
          if (!rescaling.logTells && partitions > 0)
            query.sparkSessionForStream.sessionState.conf
              .setConf(SQLConf.SHUFFLE_PARTITIONS, partitions)
          StorePreferredLocations.prefer(query, partitions)
        } catch {
          // Stores check the number themselves, and the error for damage is better where the file
          // is used.
          case NonFatal(e) if !wanted.exists(rescaling.changesTo) =>
            logWarning(s"Could not look for the number of partitions in $checkpoint", e)
        }
        query.sink match {
          case sink: CommittingSink =>
            checkBatches(query, query.sink.name)
            sink.begin(checkpoint, s"${query.id}")
          case _ =>
        }
      }
    } catch {
      case NonFatal(e) =>
        logWarning(s"The query on $checkpoint can't start", e)
        CheckpointOwner.fail(
          checkpoint,
          nameOf(query.runId),
          e match {
            case known: KeystateException => known
            case io: IOException => KeystateErrors.storage(s"$checkpoint", io)
            case other => KeystateErrors.rescaleFailed(other)
          }
        )
    }
  }

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    Option(running.remove(event.runId)).foreach(CheckpointOwner.release(_, nameOf(event.runId)))
}

private[keystate] object RestartListener {

  private def nameOf(run: UUID) = s"query run $run"

  /** Throws where a micro-batch's entry in the commit log is not written on the query's own thread,
    * at its end.
    */
  private def checkBatches(query: StreamExecution, sink: String): Unit = {
    val unfit = query match {
      case _: AsyncProgressTrackingMicroBatchExecution => Some("asynchronous progress tracking")
      case _: MicroBatchExecution if RealTimeMode.isTrigger(query.trigger) =>
        Some("real-time mode")
      case _: MicroBatchExecution => None
      case _ => Some("continuous processing")
    }
    unfit.foreach(mode => throw KeystateErrors.sinkNeedsBatches(sink, mode))
  }

  private def isKeystates(plan: LogicalPlan) = plan.isInstanceOf[StatefulPlanShim]

  private def enabled(conf: SQLConf): Boolean =
    Settings.OnRestart.of(StoreConfig.in(conf)) == "auto"

  private def partitions(conf: SQLConf): Option[Int] =
    Option.when(conf.contains(SQLConf.SHUFFLE_PARTITIONS.key))(conf.numShufflePartitions)
}
