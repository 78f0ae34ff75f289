package org.apache.spark.sql.keystate.python

import org.json4s.JsonAST.JObject
import org.json4s.JsonDSL._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{PythonUDF, UnsafeProjection}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.operator.{
  BroadcastInput, FunctionPass, FunctionRunner, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.python.messages.{
  BroadcastColumns, KeyedColumns, LiveTurns, MessageSettings, PackedAnswer, PackedParts, Packing
}
import org.apache.spark.sql.keystate.realtime.LiveTimers
import org.apache.spark.sql.keystate.spec.{OperatorSpec, Protocol, StateKind}
import org.apache.spark.sql.keystate.state.DueTimers

/** Runs a Python function in a worker that belongs to the task. */
private[keystate] class PythonRunner(udf: PythonUDF, conf: SQLConf, metrics: Map[String, SQLMetric])
    extends FunctionRunner {
  private val function = WorkerFunction(udf, conf, metrics)
  private val settings = MessageSettings.from(conf)

  override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass = {
    val states = new KeyedColumns(context.spec.states, context.entries, settings.inline)
    val broadcast = context.broadcastStates.toSeq.flatMap(_.states).zipWithIndex.map {
      case (state, i) => new BroadcastColumns(state, i)
    }
    context.broadcastInput.filter(_.rows.nonEmpty) match {
      case None => runRows(rows, due, states, broadcast, context)
      case Some(input) =>
        val first = runBroadcast(input, states, broadcast, context)
        lazy val second = runRows(rows, due, states, broadcast, context)
        new FunctionPass {
          override def output: Iterator[InternalRow] = first.output ++ second.output
          override def updated: Long = first.updated + second.updated
          override def removed: Long = first.removed + second.removed
        }
    }
  }

  /** The pass with the broadcast elements. */
  private def runBroadcast(
      input: BroadcastInput,
      states: KeyedColumns,
      broadcast: Seq[BroadcastColumns],
      context: OperatorTaskContext
  ): FunctionPass = {
    val broadcasted = context.broadcastStates.get
    val pages = new ArrowStreams(function.timeZoneId, WorkerFunction.LargeVarTypes)
    val toOutput = UnsafeProjection.create(context.columns.output, context.columns.output)
    val pass =
      new BroadcastConversation(
        broadcasted,
        broadcast,
        control(context),
        toOutput,
        settings.messageRows
      )
    val keys = new KeyPages(
      context.spec,
      DataTypeUtils.fromAttributes(context.columns.grouping),
      context.entries,
      states,
      context.timers,
      context.batch.maxParallelism,
      pages
    )
    val table = new StateQuestions(keys, states, pages).questions ++
      BroadcastQuestions.questions(broadcast, pages) ++ keys.questions
    pass.announce(serve(table, context))
    val schema = BroadcastConversation.messageSchema(DataTypeUtils.fromAttributes(input.columns))
    val results = converse(schema, pass, input.iterator, context)
    new FunctionPass {
      override def output: Iterator[InternalRow] = results
      override def updated: Long = pass.updated + keys.updated
      override def removed: Long = pass.removed + keys.removed
    }
  }

  /** The pass with the rows and timers. */
  private def runRows(
      rows: TaskRows,
      due: DueTimers,
      states: KeyedColumns,
      broadcast: Seq[BroadcastColumns],
      context: OperatorTaskContext
  ): FunctionPass = {
    val spec = context.spec
    val toOutput = UnsafeProjection.create(context.columns.output, context.columns.output)
    val live = Option.when(context.batch.realTime) {
      val passed = DueTimers.none
      val timers = context.timers.map(new LiveTimers(_, passed, context.lease))
      new LiveTurns(timers, passed, cacheEpochMillis(spec))
    }
    val schema = RowConversation.messageSchema(
      context.columns.inputs.map(input => DataTypeUtils.fromAttributes(input.seen)),
      DataTypeUtils.fromAttributes(context.columns.grouping),
      spec
    )
    val packing = live.flatMap(_ => packingOf(schema, context))
    val task = new RowConversation(
      context,
      rows,
      states,
      due,
      toOutput,
      control(context) ~ (Protocol.Control.TimersSent -> live.nonEmpty),
      settings,
      live,
      packing
    )
    val results =
      // Without rows and timers there is nothing to do, and the worker need not start.
      if (live.isEmpty && !rows.hasNext && context.lease.use(due.isEmpty) && !spec.checkpointed)
        Iterator.empty
      else {
        serveQuestions(task, schema, states, broadcast, context)
        if (live.isEmpty) converse(schema, task, rows, context)
        else converseLive(schema, packing, task, rows, context)
      }
    new FunctionPass {
      override def output: Iterator[InternalRow] = results
      override def updated: Long = task.updated
      override def removed: Long = task.removed
    }
  }

  /** None if all messages are Arrow. */
  private def packingOf(schema: StructType, context: OperatorTaskContext): Option[Packing] = {
    val rows = DataTypeUtils.fromAttributes(context.columns.inputs.head.seen)
    val keys = DataTypeUtils.fromAttributes(context.columns.grouping)
    val output = DataTypeUtils.fromAttributes(context.columns.output)
    Option.when(PackedParts.fit(context.spec, rows, keys, output)) {
      val streams = new ArrowStreams(function.timeZoneId, WorkerFunction.LargeVarTypes)
      new Packing(schema, output.size, streams, context.task)
    }
  }

  /** How long a cache epoch lasts in real-time mode. States that expire in processing time are read
    * again once their values could have expired.
    */
  private def cacheEpochMillis(spec: OperatorSpec): Long =
    (LiveTurns.CacheEpochMillis +: spec.states
      .flatMap(_.ttl)
      .filterNot(_.eventTime)
      .map(_.millis)).min

  private def serveQuestions(
      task: RowConversation,
      schema: StructType,
      states: KeyedColumns,
      broadcast: Seq[BroadcastColumns],
      context: OperatorTaskContext
  ): Unit = {
    val spec = context.spec
    val mayAsk = spec.timers && !context.batch.realTime
    if (
      mayAsk || spec.broadcast.nonEmpty || spec.checkpointed ||
      spec.states.exists(_.kind != StateKind.Value)
    ) {
      val pages = new ArrowStreams(function.timeZoneId, WorkerFunction.LargeVarTypes)
      val table = new StateQuestions(task, states, pages).questions ++
        (if (mayAsk) TimerQuestions.questions(task, schema, pages) else Map.empty) ++
        context.operatorState.toSeq
          .flatMap(OperatorStateQuestions.questions(_, context.readOperatorStates)) ++
        context.rawKeyedState.toSeq.flatMap(OperatorStateQuestions.raw) ++
        BroadcastQuestions.questions(broadcast, pages)
      context.operatorState.foreach { own =>
        task.announce(Protocol.Control.OperatorTag -> own.tag)
      }
      context.broadcastStates.foreach { states =>
        task.announce(Protocol.Control.BroadcastTag -> states.tag)
      }
      task.announce(serve(table, context))
    }
  }

  /** Answers questions until the task ends. Returns the data with which the worker connects. */
  private def serve(table: Questions.Table, context: OperatorTaskContext): JObject = {
    val questions = new Questions(table)
    val server = StateServer.ofThisJvm
    val secret = server.register { (question, data) =>
      context.lease.use(questions(question, data))
    }
    context.task.addTaskCompletionListener[Unit](_ => server.unregister(secret))
    (Protocol.Control.Server -> server.address) ~ (Protocol.Control.Secret -> secret)
  }

  /** Runs a conversation. Returns the rows that it makes of the worker's answers. */
  private def converse(
      schema: StructType,
      conversation: Conversation,
      input: Iterator[InternalRow],
      context: OperatorTaskContext
  ): Iterator[InternalRow] =
    answers(schema, conversation, input, context)
      .flatMap(answer => received(Conversation.columns(answer), conversation, context))

  /** The worker's answers to the messages of a conversation, each valid until the next. */
  protected def answers(
      schema: StructType,
      conversation: Conversation,
      input: Iterator[InternalRow],
      context: OperatorTaskContext
  ): Iterator[ColumnarBatch] =
    new ConversationRunner(function, schema, conversation)
      .compute(input, context.task.partitionId(), context.task)

  /** Runs a conversation in real-time mode. */
  private def converseLive(
      schema: StructType,
      packing: Option[Packing],
      conversation: RowConversation,
      input: Iterator[InternalRow],
      context: OperatorTaskContext
  ): Iterator[InternalRow] =
    new RealTimeRunner(function, packing.fold(schema)(_ => Packing.messageSchema), conversation)
      .run(input, context.columns.inputs.head.all, context.task)
      .flatMap { answer =>
        packing.fold[Either[PackedAnswer, String => ArrowColumnVector]](
          Right(Conversation.columns(answer))
        )(_.read(answer)) match {
          case Left(packed) => conversation.receive(packed)
          case Right(columns) => received(columns, conversation, context)
        }
      } ++ {
      context.addMetrics(conversation.live.get.latencies.values)
      Iterator.empty
    }

  private def received(
      column: String => ArrowColumnVector,
      conversation: Conversation,
      context: OperatorTaskContext
  ): Iterator[InternalRow] = {
    if (context.spec.metrics)
      MetricColumns.received(column).foreach(context.addMetrics)
    context.lease.use(conversation.receive(column))
  }

  /** The values of the function's runtime context, as JSON for the control column. */
  private def control(context: OperatorTaskContext): JObject =
    (Protocol.Control.Protocol -> Protocol.Version) ~
      (Protocol.Control.Subtask -> context.index) ~
      (Protocol.Control.Parallelism -> context.batch.parallelism) ~
      (Protocol.Control.MaxParallelism -> context.batch.maxParallelism) ~
      (Protocol.Control.Attempt -> context.task.attemptNumber()) ~
      (Protocol.Control.Streaming -> context.batch.streaming) ~
      (Protocol.Control.BatchId -> context.batch.id) ~
      (Protocol.Control.QueryRun -> context.batch.queryRun) ~
      (Protocol.Control.Watermark -> context.watermark) ~
      (Protocol.Control.LateWatermark -> context.lateWatermark) ~
      (Protocol.Control.ProcessingTime -> context.batch.processingTime) ~
      (Protocol.Control.EventTimeColumn -> context.inputs.head.eventTime.column) ~
      (Protocol.Control.SecondEventTimeColumn ->
        context.inputs.lift(1).flatMap(_.eventTime.column))
}
