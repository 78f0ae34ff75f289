package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.DueTimers

/** Joins the rows of a key of many streams whose times are near each other.
  *
  * A result has at most one row of each stream, and the latest one's time is at most `within` after
  * the earliest one's. An inner join has the results with a row of each stream. An outer join has
  * those that no row could be added to, the full disjunction: of two streams it is SQL's full outer
  * join, and it does not depend on an order of the streams.
  *
  * The operator reads the key columns; then which stream a row is of, from 0 on, and the row's time
  * in us; then for each stream a struct with what is stored of its rows.
  *
  * @param within
  *   in us
  * @param earliest
  *   the name of the column for a result's earliest time, after the key; None if it has none
  * @param late
  *   whether a row of the output is a struct for results and one for late rows
  */
private[keystate] final case class JoinAll(
    key: Seq[Attribute],
    streams: Seq[JoinedStream],
    within: Long,
    outer: Boolean,
    earliest: Option[String],
    late: Boolean
) extends OperatorFunction
    with FunctionRunner {

  override def toString: String = {
    val kind = if (outer) "outer" else "inner"
    s"JoinAll(${streams.size} streams, $kind)"
  }

  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

  /** A subtask keeps the projections from task to task. */
  override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass = {
    val results = context.subtask.getOrOpen(new JoinedResults(this))(_ => true)
    new JoinAllPass(this, results, rows, due, context)
  }

  /** The columns of a result. */
  def output: StructType = {
    val time = earliest.map(StructField(_, TimestampType))
    StructType(
      key.map(column => StructField(column.name, column.dataType, column.nullable)) ++ time ++
        streams.flatMap(_.columns)
    )
  }
}

/** A stream of a join.
  *
  * @param own
  *   its columns that are in the output
  * @param names
  *   their names there
  * @param time
  *   which of them is the time, which is not in the struct; None if none is
  */
private[keystate] final case class JoinedStream(
    own: Seq[StructField],
    names: Seq[String],
    time: Option[Int]
) {
  def columns: Seq[StructField] = own.zip(names).map { case (column, name) =>
    column.copy(name = name)
  }

  /** What is stored of a row besides its key and time. */
  def stored: StructType = StructType(own.zipWithIndex.collect {
    case (column, i) if !time.contains(i) => column
  })
}

private[keystate] object JoinAll {

  /** The state with a stream's rows, by time and number. */
  def rows(stream: Int): String = s"_${stream + 1}"

  val RowKey: StructType = new StructType().add("time", TimestampType).add("number", LongType)

  /** The state with the time of each stream's last row that is gone, of an outer join. */
  val Gone = "_gone"

  def goneType(streams: Int): StructType =
    StructType(Seq.tabulate(streams)(i => StructField(rows(i), TimestampType)))
}

/** Makes results in the output columns of a join. One thread at a time. */
private[expression] final class JoinedResults(join: JoinAll) extends AutoCloseable {
  private val keyType =
    StructType(join.key.map(column => StructField(column.name, column.dataType)))
  private val n = join.streams.size

  /** The key, the earliest time, and for each stream its row's time and what was stored of it. */
  private val parts = new GenericInternalRow(2 + 2 * n)

  private val columns: Seq[Expression] = {
    val key = BoundReference(0, keyType, nullable = false)
    val keys = keyType.indices.map(GetStructField(key, _))
    val time = join.earliest.map(_ => BoundReference(1, TimestampType, nullable = true))
    keys ++ time ++ join.streams.zipWithIndex.flatMap { case (stream, i) =>
      val row = BoundReference(3 + 2 * i, stream.stored, nullable = true)
      val fields = stream.stored.indices.map(GetStructField(row, _))
      val time = BoundReference(2 + 2 * i, TimestampType, nullable = true)
      stream.time.fold[Seq[Expression]](fields)(at => fields.patch(at, Seq(time), 0))
    }
  }
  private def none = Literal(null, join.output)
  private val made =
    UnsafeProjection.create(if (join.late) Seq(CreateStruct(columns), none) else columns)
  private lazy val madeLate = UnsafeProjection.create(Seq(none, CreateStruct(columns)))

  /** @param rows
    *   the row of each stream; null where there is none
    */
  def apply(key: UnsafeRow, rows: Array[TimedRow]): UnsafeRow = {
    parts.update(0, key)
    var earliest = Long.MaxValue
    var i = 0
    while (i < n) {
      val row = rows(i)
      if (row == null) {
        parts.setNullAt(2 + 2 * i)
        parts.setNullAt(3 + 2 * i)
      } else {
        parts.update(2 + 2 * i, row.time)
        parts.update(3 + 2 * i, row.stored)
        earliest = math.min(earliest, row.time)
      }
      i += 1
    }
    parts.update(1, earliest)
    made(parts)
  }

  /** A row without a time, which is joined with none. */
  def untimed(key: UnsafeRow, stream: Int, row: InternalRow): UnsafeRow = {
    alone(key, stream, row)
    made(parts)
  }

  def late(key: UnsafeRow, stream: Int, row: TimedRow): UnsafeRow = {
    alone(key, stream, row.stored)
    parts.update(1, row.time)
    parts.update(2 + 2 * stream, row.time)
    madeLate(parts)
  }

  private def alone(key: UnsafeRow, stream: Int, row: InternalRow): Unit = {
    parts.update(0, key)
    for (i <- 1 until parts.numFields) parts.setNullAt(i)
    parts.update(3 + 2 * stream, row)
  }

  override def close(): Unit = ()
}

/** A row of a stream: its time in us, and what is stored of it. */
private[expression] final class TimedRow(val time: Long, val stored: InternalRow)
