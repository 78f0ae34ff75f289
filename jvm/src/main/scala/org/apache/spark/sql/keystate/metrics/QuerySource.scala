package org.apache.spark.sql.keystate.metrics

import java.time.{Duration, Instant}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.sql.streaming.StreamingQueryProgress

/** A query's progress as gauges: `query.`, `source0.` and `operator0.` with the names of the
  * progress. A value that the last progress did not have is 0.
  */
private[keystate] final class QuerySource(query: String) extends GaugeSource(s"keystate.$query") {

  /** Counts of this driver, over all starts of the query. */
  private val starts, failures, fenced = new AtomicLong

  @volatile private var running = false
  @volatile private var told = Map.empty[String, Number]
  @volatile private var last = Instant.now

  gauge("query.running")(if (running) 1 else 0)
  gauge("query.starts")(starts.get)
  gauge("query.failures")(failures.get)
  gauge("query.fenced")(fenced.get)
  // By the driver's clock at the time of reading: a query that hangs reports nothing itself.
  gauge("query.secondsSinceProgress")(
    if (running) Duration.between(last, Instant.now).getSeconds else 0
  )

  def isRunning: Boolean = running

  def started(): Unit = {
    starts.incrementAndGet()
    last = Instant.now
    running = true
  }

  def progressed(progress: StreamingQueryProgress): Unit = {
    val values = QuerySource.values(progress)
    val added = values.keySet -- told.keySet
    last = Instant.now
    // A name stays, because its readers expect it.
    told = told.view.mapValues[Number](_ => 0L).toMap ++ values
    added.foreach(name => gauge(name)(told(name)))
  }

  def ended(error: Option[String]): Unit = {
    running = false
    if (error.isDefined) failures.incrementAndGet()
    if (error.exists(_.contains("KEYSTATE_FENCED"))) fenced.incrementAndGet()
    told = told.view.mapValues[Number](_ => 0L).toMap
  }
}

private[keystate] object QuerySource {

  /** All numbers of a progress. A number that is none, such as a rate of no time, is left out. */
  private[metrics] def values(progress: StreamingQueryProgress): Map[String, Number] = {
    val query = Map[String, Number](
      "batchId" -> progress.batchId,
      "batchDurationMs" -> progress.batchDuration,
      "numInputRows" -> progress.numInputRows,
      "inputRowsPerSecond" -> progress.inputRowsPerSecond,
      "processedRowsPerSecond" -> progress.processedRowsPerSecond
    ) ++
      progress.durationMs.asScala.map { case (part, ms) => s"duration.${part}Ms" -> ms } ++
      watermarkLag(progress).map("watermarkLagMs" -> _)
    val sources = for {
      (source, i) <- progress.sources.zipWithIndex
      (name, text) <- source.metrics.asScala
      value <- text.toDoubleOption
    } yield s"source$i.$name" -> (value: Number)
    val operators = for {
      (operator, i) <- progress.stateOperators.zipWithIndex
      (name, value) <- Map[String, Number](
        "numRowsTotal" -> operator.numRowsTotal,
        "numRowsUpdated" -> operator.numRowsUpdated,
        "numRowsRemoved" -> operator.numRowsRemoved,
        "numRowsDroppedByWatermark" -> operator.numRowsDroppedByWatermark,
        "memoryUsedBytes" -> operator.memoryUsedBytes,
        "allUpdatesTimeMs" -> operator.allUpdatesTimeMs,
        "allRemovalsTimeMs" -> operator.allRemovalsTimeMs,
        "commitTimeMs" -> operator.commitTimeMs,
        "numShufflePartitions" -> operator.numShufflePartitions
      ) ++ operator.customMetrics.asScala.collect {
        // One for each partition, under a name of its own.
        case (name, value) if !name.startsWith("SnapshotLastUploaded") => name -> (value: Number)
      }
    } yield s"operator$i.$name" -> value
    (query.map { case (name, value) => s"query.$name" -> value } ++ sources ++ operators)
      .filter { case (_, value) => java.lang.Double.isFinite(value.doubleValue) }
  }

  /** How far the watermark was behind the start of the micro-batch, in ms; None without one. */
  private def watermarkLag(progress: StreamingQueryProgress): Option[Number] =
    for {
      text <- Option(progress.eventTime.get("watermark"))
      watermark <- Try(Instant.parse(text)).toOption
      if watermark.toEpochMilli > 0 // it has not seen a row yet
      now <- Try(Instant.parse(progress.timestamp)).toOption
    } yield now.toEpochMilli - watermark.toEpochMilli
}
