package org.apache.spark.sql.keystate

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** Rescales a query that is started with another `spark.sql.shuffle.partitions` than its checkpoint
  * has. Set as one of `spark.sql.streaming.streamingQueryListeners`.
  *
  * Relies on `StreamExecution.runStream`, which posts the started event synchronously on the query's
  * own thread before it reads the offset and commit logs. The setting counts only where it was set,
  * not by its default. What a listener throws is only logged, so a failure is kept for the operator,
  * which fails the query with it when it is planned.
  */
class RescaleOnRestart extends StreamingQueryListener with Logging {
  import RescaleOnRestart._

  override def onQueryStarted(event: QueryStartedEvent): Unit =
    SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).foreach { any =>
      any.streams.get(event.id) match {
        case wrapper: StreamingQueryWrapper => rescale(wrapper.streamingQuery)
        case query: StreamExecution => rescale(query)
        case _ =>
      }
    }

  private def rescale(query: StreamExecution): Unit = {
    val session = query.sparkSession
    val conf = session.sessionState.conf
    if (enabled(conf)) {
      wanted(conf).foreach { partitions =>
        try {
          val rescaling = new QueryRescaling(session, query.resolvedCheckpointRoot)
          // What runs on another provider stays as Spark has it.
          if (rescaling.provider.contains(KeystateErrors.ProviderClass)) rescaling.run(partitions)
        } catch {
          case NonFatal(e) =>
            logWarning(s"Could not rescale ${query.resolvedCheckpointRoot}", e)
            failures.put(query.runId, e)
        }
      }
    }
  }

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = {
    failures.remove(event.runId)
    ()
  }
}

private[keystate] object RescaleOnRestart {

  /** `auto` or `off`: whether a restart with another number of partitions rescales the query. */
  val OnRestart = "spark.keystate.rescale.onRestart"

  private val failures = new ConcurrentHashMap[UUID, Throwable]

  /** Throws what kept a query from being rescaled. */
  def check(queryRun: UUID): Unit = Option(failures.get(queryRun)).foreach {
    case known: KeystateException => throw known
    case e => throw KeystateErrors.rescaleFailed(e)
  }

  private def enabled(conf: SQLConf): Boolean = conf.getConfString(OnRestart, "auto") match {
    case "auto" => true
    case "off" => false
    case other => throw new IllegalArgumentException(s"$OnRestart is '$other': use auto or off")
  }

  private def wanted(conf: SQLConf): Option[Int] =
    Option.when(conf.contains(SQLConf.SHUFFLE_PARTITIONS.key))(conf.numShufflePartitions)
}
