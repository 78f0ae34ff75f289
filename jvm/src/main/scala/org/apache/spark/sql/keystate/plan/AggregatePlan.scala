package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateFunction, Count, First, Last, MaxBy, MinBy
}
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.plans.logical.{
  EventTimeWatermark, Filter, LogicalPlan, Project
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.types._

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.expression._
import org.apache.spark.sql.keystate.operator.InputRows
import org.apache.spark.sql.keystate.shim.SparkLine
import org.apache.spark.sql.keystate.spec.{
  AggregateRecord, OperatorSpec, RowHandling, StateKind, StateSpec, TimeMode
}

/** Plans aggregates as an operator whose body is Spark's expressions.
  *
  * Below the operator there is a projection of what the functions read, so that the optimizer and the
  * planner see all of it: Python functions, subqueries, the time of the micro-batch. The functions
  * themselves are then over columns and literals. Where rows need not stay rows, they are aggregated
  * before the shuffle. Above the operator there is a projection of what is computed of the functions'
  * results.
  */
private[keystate] object AggregatePlan {

  /** The name of the state: a value of each key, or a map of its windows. */
  val StateName = "_aggregate"

  def of(
      df: ClassicDataset[_],
      input: OperatorInput,
      keys: Seq[Column],
      aggregates: Seq[Column],
      spec: AggregateSpec
  ): LogicalPlan = {
    val byEventTime = spec.windows.exists(_.byEventTime)
    val timed = if (byEventTime) spec.eventTime.fold(input)(input.timedBy) else input
    val analysed = AnalysedAggregates.of(df, keys, input.keys, aggregates)
    val plan = new AggregatePlan(timed, analysed, spec).plan
    SideOutput.noted(plan, spec.late) { names =>
      of(df, input, keys, aggregates, spec.copy(late = spec.late.map(_.among(names))))
    }
  }

  /** How aggregates are computed of buffers that are stored. */
  def evaluation(
      df: ClassicDataset[_],
      keys: Seq[Column],
      aggregates: Seq[Column],
      record: AggregateRecord
  ): AggregateEvaluation = {
    val input = OperatorInput.byColumns(df, keys)
    val analysed = AnalysedAggregates.of(df, keys, input.keys, aggregates)
    // Functions of the earliest and the latest row depend on the time that they go by.
    val timed = record.eventTime.fold(input)(input.timedBy)
    val spec = AggregateSpec(None, None, record.eventTime.map(_ => AnyWindows))
    AggregateEvaluation(
      new AggregatePlan(timed, analysed, spec).columns,
      input.keys,
      analysed.map(aggregate => aggregate.name -> AnalysedAggregates.replaced(aggregate.value)),
      analysed.flatMap(_.calls.map(_.result))
    )
  }

  private val AnyWindows = Windows(FixedBounds(1, 1, 0), byEventTime = true, 0)
}

private final class AggregatePlan(
    input: OperatorInput,
    aggregates: Seq[AnalysedAggregate],
    spec: AggregateSpec
) {
  private val windows = spec.windows
  private val read = new ReadColumns(input.child.output)

  private val rowTime: Option[Attribute] = windows.filter(_.byEventTime).map { _ =>
    input.columns
      .find(_.metadata.contains(EventTimeWatermark.delayKey))
      .getOrElse(throw KeystateErrors.windowsWithoutWatermark("Windows by event time"))
  }
  private val micros = rowTime.map {
    case column if column.dataType.isInstanceOf[StructType] => asLong(GetStructField(column, 1))
    case column => asLong(column)
  }

  private val calls: Seq[Seq[(AggregateFunction, Option[Attribute])]] =
    aggregates.map(_.calls.map { call =>
      val (function, condition) = inTime(call)
      val filter = call.filter.toSeq ++ condition
      (
        function.mapChildren(read(_)).asInstanceOf[AggregateFunction],
        filter.reduceOption(And).map(read.column)
      )
    })

  val columns: Seq[AggregateColumn] = aggregates.zip(calls).map { case (aggregate, calls) =>
    AggregateColumn(aggregate.name, calls.map((FilteredFunction.apply _).tupled))
  }

  private val fixed = windows.map(_.bounds).collect { case fixed: FixedBounds => fixed }
  private val isBegun = input.rows.order.isEmpty && !spec.readsLate &&
    windows.forall(_.bounds.isInstanceOf[FixedBounds]) &&
    PartialAggregate.takes(calls.flatten.map(_._1))

  def plan: LogicalPlan = {
    checkNames()
    val (function, rows) = operator
    val results = columns.flatMap(_.functions.map(_.function)).zipWithIndex.map {
      case (function, i) => StructField(s"_$i", function.dataType, function.nullable)
    }
    val bounds = if (windows.isEmpty) Nil else Aggregation.bounds.map(OperatorInput.field)
    val main = StructType(input.keys.map(OperatorInput.field) ++ bounds ++ results)
    val schema = SideOutput.schema(main, spec.late -> DataTypeUtils.fromAttributes(input.columns))
    val process = KeyedProcess.of(function, rows, None, schema, operatorSpec)
    projected(process)
  }

  /** The operator's body and its input. */
  private def operator: (Aggregation, OperatorInput) = {
    val filtered = rowTime.fold(input.child)(time => Filter(IsNotNull(time), input.child))
    val order = input.rows.order.map(_.mapChildren(read(_)).asInstanceOf[SortOrder])
    // Late rows are emitted as they came, so these columns come first.
    val kept = if (!spec.readsLate) input.keys else input.columns
    val keys = input.keys.filterNot(key => kept.exists(_.exprId == key.exprId))
    val others = if (isBegun) Nil else read.columns
    val isMarked =
      (kept ++ keys ++ others).exists(column => rowTime.exists(_.exprId == column.exprId))
    val time = micros.map(timeColumn(_, isMarked))
    val before = kept ++ keys ++ time
    val rows = Project((before ++ read.made ++ read.columns).distinct, filtered)
    val timeAt = Option.when(time.nonEmpty)(before.size - 1)
    if (isBegun) {
      val counted = time.map(_ => Count(Literal(1)) -> Option.empty[Attribute]).toSeq
      val grouping = before.map(_.toAttribute)
      val begun = PartialAggregate.of(grouping, counted ++ calls.flatten, rows)
      val told = begun.output.take(before.size + counted.size)
      (
        Aggregation(
          columns,
          AggregateInput.Begun(told),
          input.keys,
          windows,
          timeAt,
          counted.headOption.map(_ => before.size),
          None
        ),
        OperatorInput(begun, InputRows(input.keys, begun.output, Nil))
      )
    } else
      (
        Aggregation(
          columns,
          AggregateInput.Rows(rows.output),
          input.keys,
          windows,
          timeAt,
          None,
          Option.when(spec.readsLate)(input.columns.size)
        ),
        OperatorInput(rows, InputRows(input.keys, rows.output, order))
      )
  }

  /** The event time of a row, or the start of its pane. It has the watermark's mark, by which the
    * operator knows that it goes by event time, unless the row's own time is still there: Spark
    * allows one column with a mark.
    */
  private def timeColumn(micros: Expression, isMarked: Boolean): NamedExpression = {
    val time = fixed.filter(_ => isBegun) match {
      case Some(bounds) =>
        val arguments = Seq(micros, Literal(bounds.pane), Literal(bounds.offset))
        StaticInvoke(PaneTime.getClass, TimestampType, "start", arguments)
      case None => StaticInvoke(PaneTime.getClass, TimestampType, "millis", Seq(micros))
    }
    val mark = rowTime.filterNot(_ => isMarked).map(_.metadata)
    Alias(time, "_time")(explicitMetadata = mark.orElse(Some(Metadata.empty)))
  }

  private def asLong(time: Expression): Expression =
    PreciseTimestampConversion(time, time.dataType, LongType)

  /** The first and last rows of windows by event time are those of the earliest and the latest time.
    * With the condition that rows meet then.
    */
  private def inTime(call: AggregateCall): (AggregateFunction, Option[Expression]) =
    (call.function, rowTime) match {
      case (First(child, ignoresNulls), Some(time)) =>
        (MinBy(child, time), Option.when(ignoresNulls)(IsNotNull(child)))
      case (Last(child, ignoresNulls), Some(time)) =>
        (MaxBy(child, time), Option.when(ignoresNulls)(IsNotNull(child)))
      case (function, _) => (function, None)
    }

  private def operatorSpec: OperatorSpec = {
    val stored = AggregateColumn.stateType(columns)
    val state = StateSpec(
      AggregatePlan.StateName,
      if (windows.isEmpty) StateKind.Value else StateKind.SortedMap,
      "aggregates",
      stored,
      windows.map(_ => StoredWindows.KeyType),
      StoredOrder.Natural,
      aggregates = Some(record)
    )
    OperatorSpec(
      spec.name,
      spec.maxParallelism,
      windows.fold[TimeMode](TimeMode.NoTime) { windows =>
        if (windows.byEventTime) TimeMode.EventTime else TimeMode.ProcessingTime
      },
      timers = windows.nonEmpty,
      Seq(state),
      sideOutputs = spec.readsLate,
      metrics = windows.exists(_.byEventTime),
      lateOutputs = Option.when(spec.readsLate)(Some(1)).toSeq,
      rowHandling = RowHandling(lateRows = true)
    )
  }

  private def record: AggregateRecord = {
    val names = aggregates.flatMap(_.columns).toSet ++ input.keys.map(_.name) ++ rowTime.map(_.name)
    AggregateRecord(
      SparkLine.Name,
      StructType(input.child.output.filter(column => names(column.name)).map(OperatorInput.field)),
      aggregates.map(aggregate => aggregate.name -> aggregate.text),
      windows.map(_.kind),
      rowTime.map(_.name)
    )
  }

  /** What is computed of the functions' results. */
  private def projected(process: KeyedProcess): LogicalPlan = {
    val plain = input.keys.size + (if (windows.isEmpty) 0 else 2)
    val results = aggregates.flatMap(_.calls.map(_.result.exprId))

    SideOutput.projected(process, spec.late) { columns =>
      val told = columns.map(SideOutput.value)
      val keys = input.keys.map(_.exprId).zip(told).toMap
      val made = results.zip(told.drop(plain)).toMap
      columns.take(plain) ++ aggregates.map { aggregate =>
        val value = aggregate.value.transformDown {
          case column: Attribute if made.contains(column.exprId) => made(column.exprId)
          case column: Attribute if keys.contains(column.exprId) => keys(column.exprId)
        }
        Alias(value, aggregate.name)()
      }
    }
  }

  private def checkNames(): Unit = {
    val bounds = if (windows.isEmpty) Nil else Seq(Aggregation.Start, Aggregation.End)
    val told = input.keys.map(_.name) ++ bounds
    aggregates.map(_.name).find(name => told.exists(_.equalsIgnoreCase(name))).foreach { name =>
      throw KeystateErrors.declaration(
        s"An aggregate is named '$name', as a column of the key or of the window is: give it " +
          "another name, with alias."
      )
    }
  }

}
