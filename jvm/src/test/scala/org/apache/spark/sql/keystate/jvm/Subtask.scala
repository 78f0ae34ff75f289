package org.apache.spark.sql.keystate.jvm

import java.nio.file.Files

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.{DataFrame, Encoder, Row}
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder

import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.operator.{
  BatchInfo,
  InputColumns,
  InTurn,
  OperatorColumns,
  OperatorTaskContext
}
import org.apache.spark.sql.keystate.plan.KeyedProcess
import org.apache.spark.sql.keystate.state.Timer
import org.apache.spark.sql.keystate.store.{BackendLease, StateBackends, SubtaskScope}

/** The one subtask of a function's streaming operator, on a backend of its own, for tests that move
  * the clocks themselves. It does what a task does, without a query.
  *
  * @param result
  *   what a function made of a Dataset of T that is keyed by columns
  */
final class Subtask[T: Encoder](result: DataFrame, backendName: String) extends AutoCloseable {
  private val fromInput = ObjectCodec.expression(implicitly[Encoder[T]]).createSerializer()
  private val maxParallelism = 4
  private var plan = planOf(result)
  private val folder = Files.createTempDirectory("keystate").toFile
  private val backend =
    StateBackends
      .configured(Some(backendName), _ => Map.empty)
      .create(maxParallelism, () => folder)
  private val registered = mutable.HashMap.empty[String, Int]
  register()
  private val scope = new SubtaskScope
  private val toRow = ExpressionEncoder(result.schema).resolveAndBind().createDeserializer()
  private var watermark = 0L
  private var clock = 0L
  private var batch = 0L

  private def planOf(result: DataFrame) =
    result.queryExecution.analyzed.asInstanceOf[KeyedProcess]

  /** The backend's ids of the function's families; what another function had stays. */
  private def families: Seq[Int] = plan.spec.families.map(family => registered(family.name))

  private def register(): Unit = plan.spec.families
    .filterNot(family => registered.contains(family.name))
    .foreach { family =>
      backend.register(family.copy(id = registered.size))
      registered(family.name) = registered.size
    }

  private def columns = OperatorColumns(
    Seq(InputColumns(plan.left.output, plan.rows.columns, plan.rows.keys)),
    plan.rows.keys,
    plan.output
  )

  /** Entries of all states and timers of the function. */
  def numEntries: Long = families.map(backend.count).sum

  /** Runs a micro-batch. */
  def run(
      rows: Seq[T],
      watermark: Long = this.watermark,
      clock: Long = this.clock
  ): Seq[Row] = {
    val late = this.watermark
    this.watermark = watermark
    this.clock = clock
    batch += 1
    val task = TaskContext.empty()
    TaskContext.setTaskContext(task)
    try {
      val context = new OperatorTaskContext(
        plan.spec,
        columns,
        BatchInfo(true, false, batch, "run", Some(clock), 1, maxParallelism),
        new BackendLease(backend, () => (), "the test's"),
        registered.toMap,
        Map.empty,
        scope,
        Some(late),
        Some(watermark),
        None,
        () => Nil
      )
      val due = context.timers.fold(collection.mutable.Queue.empty[Timer])(
        _.due(Some(watermark), Some(clock))
      )
      val input = rows.iterator.map(row => fromInput(row))
      val pass = plan.function
        .asInstanceOf[JvmFunction]
        .run(InTurn(Seq(0)).rows(Seq(input)), due, context)
      val emitted = pass.output.map(row => toRow(row.copy()).asInstanceOf[Row]).toVector
      backend.changesCommitted()
      emitted
    } finally {
      task.markTaskCompleted(None)
      TaskContext.unset()
    }
  }

  /** Lets the opened function go: the next micro-batch opens another. */
  def restart(): Unit = scope.close()

  /** The same with another function, which has the same columns. */
  def restart(result: DataFrame): Unit = {
    scope.close()
    plan = planOf(result)
    register()
  }

  override def close(): Unit = {
    scope.close()
    backend.close()
  }
}
