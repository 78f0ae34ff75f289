package org.apache.spark.sql.keystate.metrics

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.sql.streaming.StreamingQueryProgress

/** The sources of this driver's queries in Spark's metrics system, whose sinks show them: servlet for
  * Prometheus, JMX, Graphite, StatsD. A query is known by its id, so one that starts again goes on
  * with its source. Thread-safe.
  *
  * Relies on `SparkEnv.metricsSystem`, which takes and gives up sources at any time.
  */
private[keystate] object QuerySources {

  /** Of queries that have ended no more than this are kept. */
  private val Kept = 100

  private val sources = mutable.LinkedHashMap.empty[UUID, QuerySource]
  private var system: Option[MetricsSystem] = None

  /** @param name
    *   null if it has none; then it is named by its id
    */
  def started(id: UUID, name: String): Unit = synchronized {
    val current = Option(SparkEnv.get).map(_.metricsSystem)
    // Sources of a Spark that was stopped went with it.
    if (current != system) sources.clear()
    system = current
    val source = sources.remove(id).getOrElse {
      val made = new QuerySource(Option(name).getOrElse(id.toString))
      current.foreach(_.registerSource(made))
      made
    }
    source.started()
    sources(id) = source
    sources.filterNot(_._2.isRunning).dropRight(Kept).foreach { case (old, source) =>
      sources.remove(old)
      current.foreach(_.removeSource(source))
    }
  }

  def progressed(progress: StreamingQueryProgress): Unit =
    synchronized(sources.get(progress.id)).foreach(_.progressed(progress))

  def ended(id: UUID, error: Option[String]): Unit =
    synchronized(sources.get(id)).foreach(_.ended(error))
}
