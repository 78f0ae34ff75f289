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
import org.apache.spark.sql.types.StructType

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
  // Messages are far smaller than what needs them, whatever Spark's own functions have.
  private val largeVarTypes = false
  private val artifacts = JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)
  private val settings = KeyedTask.Settings.from(conf)

  override def run(
      rows: Iterator[InternalRow],
      due: mutable.Queue[Timer],
      context: KeyedContext
  ): KeyedRun = {
    val channels = context.spec.states.zipWithIndex.map { case (state, i) =>
      StateChannel(state, i, context.families(i), context.entries(i), settings.inline)
    }
    context.broadcastInput.filter(_.rows.nonEmpty) match {
      case None => runRows(rows, due, channels, context)
      case Some(input) =>
        val first = runBroadcast(input, channels, context)
        lazy val second = runRows(rows, due, channels, context)
        new KeyedRun {
          override def output: Iterator[InternalRow] = first.output ++ second.output
          override def updated: Long = first.updated + second.updated
          override def removed: Long = first.removed + second.removed
        }
    }
  }

  /** The pass of the broadcast elements. */
  private def runBroadcast(
      input: BroadcastInput,
      channels: Seq[StateChannel],
      context: KeyedContext
  ): KeyedRun = {
    val states = context.broadcastStates.get
    val pages = new PageFormat(timeZone, largeVarTypes)
    val toOutput = UnsafeProjection.create(context.output, context.output)
    val pass = new BroadcastPass(states, control(context), toOutput, settings.messageRows)
    val keys = new KeyPages(
      context.spec,
      DataTypeUtils.fromAttributes(context.grouping),
      context.families,
      channels,
      context.timers,
      context.backend,
      context.maxParallelism,
      pages
    )
    val others = new StateQuestions(keys, channels, pages)
    pass.announce(
      serve(new BroadcastQuestions(states, Some(keys), pages, others), context)
    )
    val schema = BroadcastPass.messageSchema(DataTypeUtils.fromAttributes(input.columns))
    val results = converse(schema, pass, input.iterator, context)
    new KeyedRun {
      override def output: Iterator[InternalRow] = results
      override def updated: Long = pass.updated + keys.updated
      override def removed: Long = pass.removed + keys.removed
    }
  }

  /** The pass of the rows and timers. */
  private def runRows(
      rows: Iterator[InternalRow],
      due: mutable.Queue[Timer],
      channels: Seq[StateChannel],
      context: KeyedContext
  ): KeyedRun = {
    val spec = context.spec
    val toOutput = UnsafeProjection.create(context.output, context.output)
    val task = new KeyedTask(
      context.keyReader,
      context.toColumns,
      channels,
      context.timers,
      due,
      context.lease,
      toOutput,
      control(context),
      settings,
      context.operatorState,
      context.rawKeyedState
    )
    val results =
      // Nothing to do without rows and timers: the worker would start for nothing.
      if (!rows.hasNext && due.isEmpty && !spec.checkpointed) Iterator.empty
      else {
        val schema = KeyedTask.messageSchema(
          DataTypeUtils.fromAttributes(context.columns),
          DataTypeUtils.fromAttributes(context.grouping),
          spec
        )
        serveQuestions(task, schema, channels, context)
        converse(schema, task, rows, context)
      }
    new KeyedRun {
      override def output: Iterator[InternalRow] = results
      override def updated: Long = task.updated
      override def removed: Long = task.removed
    }
  }

  private def serveQuestions(
      task: KeyedTask,
      schema: StructType,
      channels: Seq[StateChannel],
      context: KeyedContext
  ): Unit = {
    val spec = context.spec
    val firesAll = spec.timers && !context.streaming
    if (
      firesAll || spec.broadcast.nonEmpty || spec.checkpointed ||
      spec.states.exists(_.kind != StateKind.Value)
    ) {
      val pages = new PageFormat(timeZone, largeVarTypes)
      val ofKeys = new StateQuestions(task, channels, pages)
      val keyed: StateServer.Answerer =
        if (firesAll) new BatchTimers(task, schema, pages, ofKeys) else ofKeys
      val questions = context.operatorState.fold[StateServer.Answerer](keyed) { own =>
        task.announce("operator_tag" -> own.tag)
        val raw = context.rawKeyedState.fold[StateServer.Answerer](keyed) { state =>
          new RawKeyedState.Questions(state, keyed)
        }
        new OperatorStateQuestions(own, context.readOperatorStates, raw)
      }
      task.announce(context.broadcastStates match {
        case None => serve(questions, context)
        case Some(states) =>
          val all = new BroadcastQuestions(states, None, pages, questions)
          serve(all, context) ~ ("broadcast_tag" -> states.tag)
      })
    }
  }

  /** Answers questions until the task ends; returns what the worker must know to ask. */
  private def serve(questions: StateServer.Answerer, context: KeyedContext): JObject = {
    val server = StateServer.ofThisJvm
    val secret = server.register { (question, data) =>
      context.lease.use(questions(question, data))
    }
    context.task.addTaskCompletionListener[Unit](_ => server.unregister(secret))
    ("server" -> server.address) ~ ("secret" -> secret)
  }

  /** What a conversation makes of the worker's answers. */
  private def converse(
      schema: StructType,
      conversation: Conversation,
      input: Iterator[InternalRow],
      context: KeyedContext
  ): Iterator[InternalRow] =
    new KeyedPythonRunner(
      function,
      resultId,
      schema,
      timeZone,
      largeVarTypes,
      pythonConf,
      metrics,
      artifacts,
      conversation
    ).compute(input, context.task.partitionId(), context.task).flatMap { answer =>
      val column = Conversation.columns(answer)
      context.receiveMetrics(column)
      context.lease.use(conversation.receive(column))
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
      ("event_time_column" -> context.eventTime.column)
}
