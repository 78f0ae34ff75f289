package org.apache.spark.sql.keystate.ui

import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}
import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQueryProgress}
import org.apache.spark.ui.{UIUtils, WebUIPage}
import org.apache.spark.util.Utils

import keystate.config.Settings
import org.apache.spark.sql.keystate.checkpoint.{CheckpointReport, QueryCheckpoint}
import org.apache.spark.sql.keystate.files.{OffsetEntry, QueryLogs}
import org.apache.spark.sql.keystate.metrics.KeySampling

/** For each running query with state: its operators from its last progress, and its states and
  * partitions from its checkpoint after the last committed micro-batch.
  */
private[ui] final class QueriesPage(tab: KeystateTab, queries: () => Seq[StreamExecution])
    extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val running = queries().filter(hasState).sortBy(nameOf)
    val content =
      if (running.isEmpty) <p>No running query has state.</p>
      else running.flatMap(section)
    UIUtils.headerSparkPage(request, "Keystate", content, tab)
  }

  /** Before its first progress it is unknown whether a query has state. */
  private def hasState(query: StreamExecution): Boolean =
    Option(query.lastProgress).forall(_.stateOperators.nonEmpty)

  private def nameOf(query: StreamExecution): String =
    Option(query.name).getOrElse(query.id.toString)

  private def section(query: StreamExecution): Seq[Node] = {
    val progress = Option(query.lastProgress)
    val report = reportOf(query)
    val found = report.toOption.flatten.toSeq.flatMap(json => (json \ "operators").children)
    val names = found.map(json => number(json, "id") -> text(json, "name")).toMap
    <h4>{nameOf(query)}</h4>
    <p>{progress.fold("No batch has ended yet.")(summary)}</p> ++
      progress.toSeq.flatMap(operators(_, query.runId, names)) ++ found.flatMap(operator) ++
      // The query goes on meanwhile, and deletes old files.
      report.failed.toOption.toSeq.flatMap { e =>
        <p>The checkpoint could not be read just now: {e.getMessage}</p>
      }
  }

  private def summary(progress: StreamingQueryProgress): String = {
    val parts = progress.durationMs.asScala.toSeq.sortBy(-_._2).map { case (part, ms) =>
      s"$part $ms ms"
    }
    s"Batch ${progress.batchId}: ${progress.numInputRows} rows; ${parts.mkString(", ")}"
  }

  /** @param names
    *   those that the query gave its operators, by their numbers: Spark knows each operator of
    *   Keystate by the same name
    */
  private def operators(
      progress: StreamingQueryProgress,
      run: UUID,
      names: Map[Long, String]
  ): Seq[Node] = {
    val all = progress.stateOperators.toSeq.zipWithIndex
    val heads = Seq("operator", "entries", "updated", "removed", "memory", "partitions")
    val times = Seq("updates ms", "removals ms", "commit ms")
    val where = Seq("worker start ms", "worker ms", "JVM ms")
    UIUtils.listingTable[(StateOperatorProgress, Int)](
      heads ++ times ++ where,
      { case (operator, i) =>
        val spent = OperatorTimes.of(operator)
        row(
          s"$i: ${names.get(i).filter(_.nonEmpty).getOrElse(operator.operatorName)}",
          operator.numRowsTotal,
          operator.numRowsUpdated,
          operator.numRowsRemoved,
          Utils.bytesToString(operator.memoryUsedBytes),
          operator.numStateStoreInstances,
          operator.allUpdatesTimeMs,
          operator.allRemovalsTimeMs,
          operator.commitTimeMs,
          spent.workerStart.getOrElse("-"),
          spent.worker.getOrElse("-"),
          spent.jvm
        )
      },
      all
    ) ++ all.flatMap { case (operator, i) => metrics(operator, i) ++ keys(run, i) }
  }

  /** The commit's parts, loads, runs, merges and requests, and the function's own metrics: all
    * partitions together.
    */
  private def metrics(operator: StateOperatorProgress, number: Int): Seq[Node] = {
    val shown = operator.customMetrics.asScala.toSeq
      .filterNot { case (name, _) => name.startsWith("SnapshotLastUploaded") }
      .sortBy(_._1)
    if (shown.isEmpty) Nil
    else
      <details><summary>Metrics of operator {number}</summary>{
        UIUtils.listingTable[(String, java.lang.Long)](
          Seq("metric", "value"),
          { case (name, value) => row(name, value) },
          shown
        )
      }</details>
  }

  /** The keys that had the most rows, if they are sampled. */
  private def keys(run: UUID, operator: Int): Seq[Node] =
    KeySampling.last(run, operator).toSeq.flatMap { sample =>
      <p>The most frequent keys of operator {operator}, of {sample.rows} sampled rows</p> ++
        UIUtils.listingTable[(String, Long)](
          Seq("key", "sampled rows", "of all, %"),
          { case (key, rows) => row(key, rows, f"${100.0 * rows / sample.rows}%.1f") },
          sample.counts
        )
    }

  /** What is in the checkpoint; None before the first commit. */
  private def reportOf(query: StreamExecution): Try[Option[JValue]] = {
    val conf = query.sparkSession.sessionState.newHadoopConf()
    val root = query.resolvedCheckpointRoot
    def provider = QueryLogs
      .offsets(conf, new Path(root))
      .latest
      .flatMap { case (_, entry) =>
        OffsetEntry.setting(entry, SQLConf.STATE_STORE_PROVIDER_CLASS.key)
      }
    // For a query on another provider there are only Spark's metrics to show.
    Try(
      Option
        .when(provider.contains(Settings.ProviderClass)) {
          Using.resource(new QueryCheckpoint(conf, root)) { checkpoint =>
            checkpoint.committed.map(_ => new CheckpointReport(checkpoint).inspect())
          }
        }
        .flatten
    )
  }

  private def operator(found: JValue): Seq[Node] = {
    val partitions = (found \ "partitions").children
    val entries = partitions.map(number(_, "entries"))
    val most = (entries :+ 1L).max
    val mean = entries.sum.toDouble / Math.max(1, entries.size)
    val skew = if (mean > 0) f"${most / mean}%.2f" else "1.00"
    <h5>Operator {number(found, "id")}: {text(found, "name")}</h5>
    <p>{number(found, "versions")} versions, {number(found, "files")} files, {
      Utils.bytesToString(number(found, "bytes"))
    }; the largest partition has {skew} times the mean</p> ++
      UIUtils.listingTable[JValue](
        Seq("state", "kind", "entries"),
        state => row(text(state, "name"), text(state, "kind"), count(state, "entries")),
        (found \ "states").children
      ) ++
      UIUtils.listingTable[JValue](
        Seq("partition", "key groups", "entries", "", "runs", "size of runs"),
        part =>
          <tr>
            <td>{number(part, "partition")}</td>
            <td>{(part \ "groups").children.map(_.values).mkString(" to ")}</td>
            <td>{number(part, "entries")}</td>
            <td style="width: 12em"><div style={
            s"background: #00897b; height: 1em; width: ${100 * number(part, "entries") / most}%"
          }></div></td>
            <td>{number(part, "runs")}</td>
            <td>{Utils.bytesToString(number(part, "bytes"))}</td>
          </tr>,
        partitions
      )
  }

  private def row(cells: Any*): Seq[Node] = <tr>{cells.map(cell => <td>{cell}</td>)}</tr>

  private def number(json: JValue, field: String): Long = json \ field match {
    case JInt(value) => value.toLong
    case _ => 0
  }

  private def count(json: JValue, field: String): String = json \ field match {
    case JInt(value) => value.toString
    case _ => "-"
  }

  private def text(json: JValue, field: String): String = json \ field match {
    case JString(value) => value
    case _ => ""
  }
}
