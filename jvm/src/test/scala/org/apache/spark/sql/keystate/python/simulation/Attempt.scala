package org.apache.spark.sql.keystate.python.simulation

import java.util.{Properties, UUID}

import scala.util.Random

import org.json4s.JsonDSL._

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.{SparkEnv, TaskContext, TaskContextImpl, TaskKilledException}

import org.apache.spark.sql.keystate.operator.{InTurn, OperatorTasks}
import org.apache.spark.sql.keystate.store.{KeyGroupProvider, KeyGroupStateStore}

/** An attempt at a task: Spark's part of it. What is done with it is done in `step`.
  *
  * @param number
  *   how many there were before
  * @param trouble
  *   what goes wrong in it, and after how many steps
  */
private[simulation] final class Attempt(
    operator: SimulatedOperator,
    worker: WorkerProcess,
    provider: KeyGroupProvider,
    batch: Batch,
    version: Long,
    run: Attempt.Run,
    number: Int,
    trouble: Option[(Trouble, Int)],
    random: Random,
    fault: Option[Fault],
    story: Story
) {
  private val task = new TaskContextImpl(
    0,
    0,
    0,
    0,
    number,
    1,
    new TaskMemoryManager(SparkEnv.get.memoryManager, 0),
    new Properties,
    SparkEnv.get.metricsSystem,
    TaskMetrics.empty,
    1,
    Map.empty
  )
  private val channel = {
    val throws = trouble.collect { case (Trouble.Throws, rows) => rows }
    val told =
      ("fresh" -> random.nextInt(5).equals(0)) ~ ("slots" -> run.settings.firstKeyIndexes) ~
        ("flush" -> run.settings.flushBytes) ~ ("throws" -> throws.getOrElse(-1))
    new Channel(worker, told, run.settings, random, fault, story, () => stepped())
  }
  private var store: KeyGroupStateStore = _
  private var output: Iterator[InternalRow] = _
  private var steps = 0

  private def stepped(): Unit = {
    steps += 1
    trouble.filter(_._2 == steps).map(_._1).foreach {
      case Trouble.Killed => throw new TaskKilledException("killed")
      case Trouble.WorkerDies => channel.dies()
      case Trouble.LeaseEnds => endLease()
      case _ =>
    }
  }

  /** Ends the task's right to use the store, as another attempt at it does. */
  def endLease(): Unit = {
    story.tell("the lease ends")
    if (!fault.contains(Fault.LeaseGoesOn)) store.abort()
  }

  /** The next result: key, row and text. None once it is committed. */
  def next(): Option[(String, Int, String)] = {
    TaskContext.setTaskContext(task)
    try {
      if (output == null) open()
      if (output.hasNext) {
        val row = output.next()
        Some((row.getString(0), row.getInt(1), row.getString(2)))
      } else {
        end(None)
        None
      }
    } catch {
      case e: Throwable =>
        task.markTaskFailed(e)
        end(Some(e))
        throw e
    } finally TaskContext.unset()
  }

  private def end(error: Option[Throwable]): Unit = {
    task.markTaskCompleted(error)
    channel.close()
  }

  private def open(): Unit = {
    store = provider.getStore(version, None).asInstanceOf[KeyGroupStateStore]
    val info = StatefulOperatorStateInfo("simulated", run.id, 0, version, 1, None)
    val metrics = Map.empty[String, SQLMetric].withDefault(_ => new SQLMetric("sum"))
    val tasks = new OperatorTasks(
      new SimulatedRunner(run.conf, channel),
      operator.spec,
      operator.columns,
      InTurn(Seq(0)),
      OperatorTasks.StoredState(info, run.groups, Nil, purges = false),
      OperatorTasks.Times(Some(batch.clock), Some(batch.watermark), Some(batch.watermark)),
      Seq(None),
      realTime = false,
      None,
      new OperatorTasks.Metrics(metrics)
    )
    val project = UnsafeProjection.create(operator.columns.inputs.head.all.map(_.dataType).toArray)
    val rows = batch.rows.iterator.map { row =>
      project(
        InternalRow(UTF8String.fromString(row.key), row.number, UTF8String.fromString(row.text))
      )
    }
    output = tasks.processStream(store, Seq(rows))
  }
}

private[simulation] object Attempt {

  /** A run of a query. */
  final case class Run(id: UUID, settings: Settings, groups: Int) {
    val conf: SQLConf = {
      val conf = new SQLConf
      Seq(
        "spark.sql.session.timeZone" -> "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch" -> settings.messageRows,
        keystate.config.Settings.MaxCachedKeys.key -> settings.cachedKeys,
        keystate.config.Settings.InlineEntries.key -> settings.inlineEntries
      ).foreach { case (key, value) => conf.setConfString(key, value.toString) }
      conf
    }
  }
}
