package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StructField, StructType, TimestampType}

import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.DueTimers

/** Joins each row of the left input with the row of the right one that its key had at its time.
  *
  * All times are in us; the columns with them are known by their positions. The output has the left
  * columns and then the right ones.
  *
  * @param waits
  *   whether a left row waits until no right row can come any more that it would be joined with; else
  *   it is joined with what is there
  * @param inner
  *   whether left rows without a match are left out
  * @param late
  *   whether a row of the output is a struct for results and one for late rows
  */
private[keystate] final case class AsOfJoin(
    left: AsOfLeft,
    right: AsOfRight,
    matching: AsOfMatching,
    waits: Boolean,
    inner: Boolean,
    late: Boolean
) extends OperatorFunction
    with FunctionRunner {

  override def toString: String = s"AsOfJoin(${matching.direction})"

  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

  /** A subtask keeps the projections from task to task. */
  override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass = {
    val made = context.subtask.getOrOpen(new AsOfRows(this))(_ => true)
    new AsOfPass(this, made, rows, due, context)
  }
}

/** The left rows.
  *
  * @param columns
  *   the columns that the operator sees of them; all of them are in the output
  * @param time
  *   the position of their time
  */
private[keystate] final case class AsOfLeft(columns: Seq[Attribute], time: Int) {

  /** The type of a left row that waits. */
  def stored: StructType = StructType(columns.map(AsOfJoin.field))
}

/** The right rows.
  *
  * @param columns
  *   the columns that the operator sees of them: first those of the output
  * @param output
  *   how many of them are in the output
  * @param time
  *   the position of their time
  * @param deleted
  *   the position of the column that says whether a row deletes what its key had; None if there is
  *   none
  * @param order
  *   which of the rows of a time counts: the last one
  */
private[keystate] final case class AsOfRight(
    columns: Seq[Attribute],
    output: Int,
    time: Int,
    deleted: Option[Int],
    order: Seq[SortOrder]
) {
  def stored: StructType = StructType(columns.map(AsOfJoin.field))
}

private[keystate] object AsOfJoin {

  /** The states: right rows by their times, and left rows that wait by time and number. */
  val RightRows = "_right"
  val LeftRows = "_left"

  val LeftKey: StructType = new StructType().add("time", TimestampType).add("number", LongType)

  private[expression] def field(column: Attribute) =
    StructField(column.name, column.dataType)
}

/** Which right row belongs to a left one. All times are in us.
  *
  * @param tolerance
  *   how far the right row's time may be from the left one's; None: any distance
  * @param exact
  *   whether the times may be equal
  */
private[keystate] final case class AsOfMatching(
    direction: AsOfDirection,
    tolerance: Option[Long],
    exact: Boolean
) {
  private val near = tolerance.getOrElse(Long.MaxValue)

  def looksBack: Boolean = direction != AsOfDirection.Forward
  def looksAhead: Boolean = direction != AsOfDirection.Backward

  /** Whether a right row's time is near enough. */
  def isNear(left: Long, right: Long): Boolean =
    (if (right > left) right - left else left - right) <= near

  /** The time after which no right row matches any more that is not late: once the watermark is at
    * it, a left row is complete.
    */
  def complete(left: Long): Long = if (looksAhead) Micros.plus(left, near) else left

  /** Right rows before this time match no left row that is to come, nor one that waits; where they
    * look back without limit, but for the latest one by the watermark.
    */
  def forgotten(watermark: Long): Long = {
    val earliest = earliestLeft(watermark)
    if (looksBack) Micros.minus(earliest, near) else earliest
  }

  /** No left row is before this time that is to come or waits. */
  def earliestLeft(watermark: Long): Long =
    if (looksAhead) Micros.minus(watermark, near) else watermark

  /** When the watermark is at this time, a right row of `right` is forgotten by its distance. None:
    * never.
    */
  def forgets(right: Long): Option[Long] = tolerance.map { near =>
    val times = (if (looksBack) 1 else 0) + (if (looksAhead) 1 else 0)
    Micros.plus(right, near * times) + 1
  }
}

private[keystate] sealed abstract class AsOfDirection(val name: String) {
  override def toString: String = name
}

private[keystate] object AsOfDirection {

  /** The last right row at or before the left row's time. */
  case object Backward extends AsOfDirection("backward")

  /** The first right row at or after it. */
  case object Forward extends AsOfDirection("forward")

  /** The nearer one of both; of two that are as near, the earlier one. */
  case object Nearest extends AsOfDirection("nearest")

  val all: Seq[AsOfDirection] = Seq(Backward, Forward, Nearest)
}
