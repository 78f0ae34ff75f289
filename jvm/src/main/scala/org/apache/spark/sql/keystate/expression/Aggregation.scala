package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.TimestampType

import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.DueTimers

/** Aggregates of the rows of a key, or of its windows.
  *
  * Without windows the output has a row for each key that has rows in a micro-batch: the key and the
  * functions' results. With windows it has a row for each window that fires, with its bounds after
  * the key.
  *
  * @param input
  *   the columns that the operator sees of its input, by position
  * @param key
  *   the key columns
  * @param time
  *   the position of the column with a row's event time, a timestamp; None by the clock and without
  *   windows
  * @param count
  *   the position of the number of rows that a begun row stands for; None where rows are rows
  * @param late
  *   how many of the first columns late rows are emitted with; None if they are dropped
  */
private[keystate] final case class Aggregation(
    columns: Seq[AggregateColumn],
    input: AggregateInput,
    key: Seq[Attribute],
    windows: Option[Windows],
    time: Option[Int],
    count: Option[Int],
    late: Option[Int]
) extends OperatorFunction
    with FunctionRunner {

  override def toString: String = columns.map(_.name).mkString("Aggregation(", ", ", ")")

  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

  /** A subtask keeps the projections from task to task: to make them costs as much as some thousand
    * rows.
    */
  override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass = {
    val buffers = context.subtask.getOrOpen(newBuffers())(_ => true)
    windows match {
      case None => new KeyAggregates(buffers, rows, context)
      case Some(own) => new WindowAggregates(this, own, buffers, rows, due, context)
    }
  }

  private def newBuffers(): AggregateBuffers = {
    val bounds = if (windows.isEmpty) Nil else Aggregation.bounds
    new AggregateBuffers(columns, input, key ++ bounds, late.map(input.columns.take))
  }
}

private[keystate] object Aggregation {

  /** The names of the columns with a window's bounds. */
  val Start = "window_start"
  val End = "window_end"

  /** The columns with a window's bounds. */
  def bounds: Seq[Attribute] =
    Seq(Start, End).map(AttributeReference(_, TimestampType, nullable = false)())

  /** The metric that counts rows that are too late for all of their windows. */
  val LateRows = "numLateRecordsDropped"
}
