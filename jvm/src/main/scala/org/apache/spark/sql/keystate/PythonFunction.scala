package org.apache.spark.sql.keystate

import scala.collection.mutable

import org.json4s.JsonAST.JObject
import org.json4s.JsonDSL._

import org.apache.spark.JobArtifactSet
import org.apache.spark.api.python.ChainedPythonFunctions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{PythonUDF, UnsafeProjection}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.ArrowPythonRunner
import org.apache.spark.sql.internal.SQLConf

/** A function in Python.
  *
  * @param udf
  *   runs it over Arrow batches
  */
private[keystate] final case class PythonFunction(udf: PythonUDF) extends KeyedFunction {
  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): KeyedRunner =
    new PythonRunner(udf, conf, metrics)
}

/** Runs a Python function in a worker of the task's own. */
private[keystate] final class PythonRunner(
    udf: PythonUDF,
    conf: SQLConf,
    metrics: Map[String, SQLMetric]
) extends KeyedRunner {
  private val function = ChainedPythonFunctions(Seq(udf.func))
  private val resultId = udf.resultId.id
  private val pythonConf = ArrowPythonRunner.getPythonRunnerConfMap(conf)
  private val timeZone = conf.sessionLocalTimeZone
  private val largeVarTypes = conf.arrowUseLargeVarTypes
  private val artifacts = JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)
  private val settings = KeyedTask.Settings.from(conf)

  override def run(
      rows: Iterator[InternalRow],
      due: mutable.Queue[Timer],
      context: KeyedContext
  ): KeyedRun = {
    val spec = context.spec
    val toOutput = UnsafeProjection.create(context.output, context.output)
    val channels = spec.states.zipWithIndex.map { case (state, i) =>
      StateChannel(state, i, context.families(i), context.backend, settings.inlineEntries)
    }
    val task = new KeyedTask(
      context.keyReader,
      context.toColumns,
      channels,
      context.timers,
      due,
      context.backend,
      toOutput,
      control(context),
      settings
    )
    val results =
      // Nothing to do without rows and timers: the worker would start for nothing.
      if (!rows.hasNext && due.isEmpty) Iterator.empty
      else {
        if (spec.states.exists(_.kind != StateKind.Value)) serveQuestions(task, channels, context)
        val runner = new KeyedPythonRunner(
          function,
          resultId,
          KeyedTask.messageSchema(
            DataTypeUtils.fromAttributes(context.columns),
            DataTypeUtils.fromAttributes(context.grouping),
            spec
          ),
          timeZone,
          largeVarTypes,
          pythonConf,
          metrics,
          artifacts,
          task
        )
        runner.compute(rows, context.task.partitionId(), context.task).flatMap(task.receive)
      }
    new KeyedRun {
      override def output: Iterator[InternalRow] = results
      override def updated: Long = task.updated
      override def removed: Long = task.removed
    }
  }

  private def serveQuestions(
      task: KeyedTask,
      channels: Seq[StateChannel],
      context: KeyedContext
  ): Unit = {
    val pages = new PageFormat(timeZone, largeVarTypes)
    val questions = new StateQuestions(task, channels, context.backend, pages)
    val secret = StateServer.register(questions)
    context.task.addTaskCompletionListener[Unit](_ => StateServer.unregister(secret))
    task.announce(("port" -> StateServer.port) ~ ("secret" -> secret))
  }

  /** What the function's runtime context tells. */
  private def control(context: KeyedContext): JObject =
    ("subtask" -> context.task.partitionId()) ~
      ("parallelism" -> context.parallelism) ~
      ("max_parallelism" -> context.maxParallelism) ~
      ("attempt" -> context.task.attemptNumber()) ~
      ("streaming" -> context.streaming) ~
      ("batch_id" -> context.batchId) ~
      ("query_run" -> context.queryRun) ~
      ("watermark" -> context.watermark) ~
      ("processing_time" -> context.processingTime) ~
      ("event_time_column" -> context.eventTimeColumn)
}
