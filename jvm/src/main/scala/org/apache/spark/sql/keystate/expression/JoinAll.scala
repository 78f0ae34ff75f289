package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.DueTimers

/** Joins the rows of a key of many streams by their times.
  *
  * A result has at most one row of each stream. An inner join has the results with a row of each. An
  * outer join within a span of time has those that no row could be added to, the full disjunction: of
  * two streams it is SQL's full outer join, and it does not depend on an order of the streams.
  *
  * The operator reads the key columns; then which stream a row is of, from 0 on, and the row's time
  * in us; then for each stream a struct with what is stored of its rows.
  *
  * @param earliest
  *   the name of the column for a result's earliest time, after the key; None if it has none
  * @param late
  *   whether a row of the output is a struct for results and one for late rows
  */
private[keystate] final case class JoinAll(
    key: Seq[Attribute],
    streams: Seq[JoinedStream],
    rule: JoinRule,
    earliest: Option[String],
    late: Boolean
) extends OperatorFunction
    with FunctionRunner {

  override def toString: String = s"JoinAll(${streams.size} streams, $rule)"

  override def notInRealTime: Option[String] = Some("A join in time")

  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

  /** A subtask keeps the projections from task to task. */
  override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass = {
    val rowsOfKeys = context.subtask.getOrOpen(new JoinedRows(this))(_ => true)
    new JoinAllPass(this, rowsOfKeys, rows, due, context)
  }

  /** The columns of a result. */
  def output: StructType = {
    val time = earliest.map(StructField(_, TimestampType))
    StructType(
      key.map(column => StructField(column.name, column.dataType, column.nullable)) ++ time ++
        streams.flatMap(_.shown)
    )
  }

  /** What is kept of a key: the rows of each stream by time, and of an outer join the time of the
    * last row of each stream that was removed.
    */
  def stored: StructType = StructType(streams.zipWithIndex.map { case (stream, i) =>
    StructField(JoinAll.rows(i), ArrayType(stream.stored))
  } :+ StructField(JoinAll.Gone, ArrayType(TimestampType)))
}

/** A stream of a join.
  *
  * @param stored
  *   what is stored of a row
  * @param time
  *   the position of its time there
  * @param names
  *   the names that the first ones of its columns have in the output
  */
private[keystate] final case class JoinedStream(stored: StructType, time: Int, names: Seq[String]) {
  def shown: Seq[StructField] = stored.zip(names).map { case (column, name) =>
    column.copy(name = name)
  }
}

private[keystate] object JoinAll {
  val StateName = "_rows"

  /** The field with a stream's rows. */
  def rows(stream: Int): String = s"_${stream + 1}"
  val Gone = "_gone"
}
