package org.apache.spark.sql.keystate.metrics

import java.util.UUID

import scala.collection.mutable

import com.codahale.metrics.MetricFilter

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.sql.streaming.StreamingQueryProgress

/** The sources of this driver's queries in Spark's metrics system, whose sinks show them: servlet
  * for Prometheus, JMX, Graphite, StatsD. A query that starts again continues with its source, and
  * so does another query with its name. Thread-safe.
  *
  * Relies on `SparkEnv.metricsSystem`, which takes sources at any time.
  */
private[keystate] object QuerySources {

  /** The maximum number of ended queries that are kept. */
  private val Kept = 100

  /** By the query's name, or its id if it has none; the one that started last is the last. */
  private val sources = mutable.LinkedHashMap.empty[String, QuerySource]
  private val names = mutable.HashMap.empty[UUID, String]
  private var system: Option[MetricsSystem] = None

  /** @param name
    *   null if it has none
    */
  def started(id: UUID, name: String): Unit = synchronized {
    val current = Option(SparkEnv.get).map(_.metricsSystem)
    if (current != system) {
      // Sources of a Spark that was stopped went with it.
      sources.clear()
      names.clear()
      system = current
    }
    val key = Option(name).getOrElse(id.toString)
    val source = sources.remove(key).getOrElse {
      val made = new QuerySource(key)
      current.foreach(_.registerSource(made))
      made
    }
    source.started()
    sources(key) = source
    names(id) = key
    sources.filterNot(_._2.isRunning).keys.toSeq.dropRight(Kept).foreach(remove)
  }

  def progressed(progress: StreamingQueryProgress): Unit =
    of(progress.id).foreach(_.progressed(progress))

  def ended(id: UUID, error: Option[String]): Unit = of(id).foreach(_.ended(error))

  private def of(id: UUID): Option[QuerySource] = synchronized(names.get(id).flatMap(sources.get))

  private def remove(key: String): Unit = {
    // Not by `removeSource`, which removes all sources whose names begin with this one's.
    sources.remove(key).foreach(_.metricRegistry.removeMatching(MetricFilter.ALL))
    names.filterInPlace((_, name) => name != key): Unit
  }
}
