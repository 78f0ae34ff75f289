package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter
import org.apache.spark.sql.classic.ExpressionUtils.column
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.types._

import keystate.errors.KeystateErrors
import keystate.pattern.{AfterMatch, Automaton, Part, PatternCompiler}
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.expression._
import org.apache.spark.sql.keystate.operator.InputRows
import org.apache.spark.sql.keystate.spec.{
  OperatorSpec, PatternRecord, RowHandling, StateKind, StateSpec, TimeMode
}

/** Plans a pattern as an operator whose body is Spark's expressions.
  *
  * Below the operator there is a projection with a boolean column for each condition on a row alone,
  * so that Spark optimizes it and runs its Python functions. Conditions that look at what a run has
  * taken are evaluated by the operator, with the buffers of their functions.
  */
private[keystate] object PatternPlan {

  /** The columns of a result besides those that are asked for. */
  val MatchTime = "match_time"
  val MatchNumber = "match_number"
  val MatchPart = "match_part"

  /** The name of the key of text that has no PARTITION BY. */
  private[plan] val NoKey = "_no_partition"

  /** @param conditions
    *   by their numbers
    * @param results
    *   the columns of a match; none if its rows are wanted
    */
  def of(
      df: ClassicDataset[_],
      input: OperatorInput,
      conditions: Seq[Column],
      results: Seq[Column],
      spec: PatternSpec
  ): LogicalPlan = {
    val automaton = PatternCompiler.compile(spec.pattern, spec.after.letter)
    val letters = automaton.letters.zipWithIndex.map { case (name, i) => name -> Set(i) }.toMap
    val references = new PatternReferences(df, letters)
    val planned = PlannedPattern(
      spec.name,
      spec.maxParallelism,
      spec.after,
      _ => PatternFinding.All(spec.mostMatches, spec.drops),
      spec.allRows,
      late = spec.late,
      timeouts = spec.timeouts,
      record = record(spec, automaton)
    )
    val plan = new PatternPlan(
      df,
      input,
      automaton,
      references,
      conditions.map(condition => references.take(written(condition))),
      results.map(result => named(written(result), references)),
      planned
    )
    SideOutput.noted(plan.plan, spec.late ++ spec.timeouts) { names =>
      val late = spec.late.map(_.among(names))
      val timeouts = spec.timeouts.map(_.among(names))
      of(df, input, conditions, results, spec.copy(late = late, timeouts = timeouts))
    }
  }

  /** An expression as it is written: relies on columns being trees that Spark analyses later. */
  private def written(column: Column): Expression = ColumnNodeToExpressionConverter(column.node)

  /** What partial matches of a pattern of parts depend on. A condition on a row may change. */
  private def record(spec: PatternSpec, automaton: Automaton): Seq[(String, String)] = {
    def told(part: Part): Seq[(String, String)] = part match {
      case group: Part.Group =>
        val same = group.copy(parts = Nil, until = group.until.map(_ => 0))
        group.parts.flatMap(told) :+ (group.name -> same.toString)
      case rows: Part.Rows =>
        val same = rows.copy(condition = None, until = rows.until.map(_ => 0))
        Seq(s"part '${rows.name}'" -> same.toString)
      case absent: Part.Absent =>
        Seq(s"part '${absent.name}'" -> absent.copy(condition = 0).toString)
    }
    spec.pattern.parts.flatMap(told) ++ Seq(
      "the order of parts" -> automaton.letters.mkString(", "),
      "within" -> spec.pattern.within.fold("none")(_.toString),
      "what is skipped after a match" -> spec.after.toString
    )
  }

  private def named(result: Expression, references: PatternReferences) = result match {
    case Alias(child, name) => name -> references.take(child)
    case other => toPrettySQL(other) -> references.take(other)
  }
}

/** @param results
  *   the names and values of the columns of a match
  */
private[plan] final class PatternPlan(
    df: ClassicDataset[_],
    input: OperatorInput,
    automaton: Automaton,
    references: PatternReferences,
    conditions: Seq[Expression],
    results: Seq[(String, Expression)],
    spec: PlannedPattern
) {
  import PatternPlan._

  private val isStreaming = input.child.isStreaming
  private val hasSides = spec.readsLate || spec.readsTimeouts
  private val read = new ReadColumns(input.child.output)
  private val order = input.rows.order

  /** The column of the time. Text over a table can do without. */
  private val time: Option[Attribute] = order.headOption.map(_.child) match {
    case Some(time: Attribute) if time.dataType == TimestampType =>
      if (order.head.direction != Ascending)
        throw KeystateErrors.declaration(s"Rows are matched by '${time.name}' ascending.")
      if (isStreaming && !time.metadata.contains(EventTimeWatermark.delayKey))
        throw KeystateErrors.declaration(
          s"The time column '${time.name}' has no watermark: call withWatermark on it before keying."
        )
      Some(time)
    case _ if spec.isText && !isStreaming && automaton.within.isEmpty => None
    case other =>
      throw KeystateErrors.declaration(
        "A pattern's order begins with the column of the time, a timestamp, but there is " +
          s"${other.fold("none")(_.sql)}."
      )
  }

  private val functions = references.functions

  /** Values that earlier rows had, as columns. */
  private val earlier: Seq[Expression] =
    if (references.lags.isEmpty) Nil
    else {
      val values = references.lags.zipWithIndex.map { case ((value, _), i) =>
        column(value).as(PatternReferences.lag(i))
      }
      df.select(values: _*).queryExecution.analyzed.expressions.map(_.children.head)
    }

  /** The input, with columns that the operator adds: earlier values, and what is told of a match. */
  private val widened: ClassicDataset[_] =
    if (!spec.isText) df
    else {
      val lags = earlier.zipWithIndex.map { case (value, i) =>
        lit(null).cast(value.dataType).as(PatternReferences.lag(i))
      }
      val told = Seq(
        PatternReferences.Letter -> StringType,
        PatternReferences.Number -> LongType,
        PatternReferences.Time -> TimestampType
      ).map { case (name, of) => lit(null).cast(of).as(name) }
      df.select(df.col("*") +: (lags ++ told): _*)
    }
  private val added: Seq[Attribute] =
    widened.queryExecution.analyzed.output.drop(df.queryExecution.analyzed.output.size)
  private val lagColumns = added.take(earlier.size)
  private val toldColumns = added.drop(earlier.size)

  private val analysed: Seq[AnalysedAggregate] =
    if (functions.isEmpty) Nil
    else {
      val calls = functions.zipWithIndex.map { case (function, i) =>
        column(function.call).as(PatternReferences.column(i))
      }
      AnalysedAggregates.of(widened, Nil, Nil, calls)
    }

  /** The input, with a column for each function's value, and for that at the end of a match. */
  private val extended: ClassicDataset[_] = {
    val values = analysed.map(one => lit(null).cast(one.value.dataType).as(one.name))
    val ends = analysed.map { one =>
      lit(null).cast(one.value.dataType).as(PatternReferences.atEnd(one.name))
    }
    widened.select(widened.col("*") +: (values ++ ends): _*)
  }

  private val placeholders: Map[ExprId, Int] = extended.queryExecution.analyzed.output
    .takeRight(2 * functions.size)
    .map(_.exprId)
    .zipWithIndex
    .toMap

  private def resolved(all: Seq[Expression]): Seq[Expression] =
    if (all.isEmpty) Nil
    else {
      val columns = all.zipWithIndex.map { case (one, i) => column(one).as(s"_resolved$i") }
      extended.select(columns: _*).queryExecution.analyzed match {
        case Project(list, child) if child.sameResult(extended.queryExecution.analyzed) =>
          list.map(_.children.head)
        case _ =>
          throw KeystateErrors.declaration(
            "Conditions and results of a pattern are expressions over one row's columns and " +
              "aggregate functions over parts: no window functions, and none that make rows."
          )
      }
    }

  private def asks(value: Expression): Set[Int] =
    value.references.toSeq
      .flatMap(column => placeholders.get(column.exprId))
      .map(_ % functions.size)
      .toSet

  private def isOfRow(value: Expression) =
    asks(value).isEmpty && !value.references.exists(isAdded)
  private def isAdded(column: Attribute) = added.exists(_.exprId == column.exprId)

  private val resolvedConditions = resolved(conditions)
  private val resolvedResults = results.map(_._1).zip(resolved(results.map(_._2)))
  private val askedByConditions = resolvedConditions.flatMap(asks).distinct.sorted
  private val askedByResults = resolvedResults.flatMap(result => asks(result._2)).distinct.sorted

  resolvedConditions.find(_.dataType != BooleanType).foreach { condition =>
    throw KeystateErrors.declaration(
      s"A condition of the pattern is ${condition.dataType.sql}, not BOOLEAN: ${toPrettySQL(condition)}."
    )
  }

  private val flags: Seq[(Attribute, Set[Int])] =
    functions.flatMap(_.letters).distinct.map { letters =>
      AttributeReference("_taken", BooleanType, nullable = false)() -> letters
    }

  /** The calls of a function, over columns that are read. */
  private def calls(of: Seq[Int]): Seq[(FilteredFunction, Attribute)] = of.flatMap { i =>
    val flag = functions(i).letters.map(letters => flags.find(_._2 == letters).get._1)
    analysed(i).calls.map { call =>
      val function = call.function.mapChildren(argument).asInstanceOf[AggregateFunction]
      FilteredFunction(function, flag) -> call.result
    }
  }

  private def argument(value: Expression): Expression =
    if (!value.references.exists(isAdded)) read(value)
    else value.transform { case column: Attribute if !isAdded(column) => read.column(column) }

  private val ofConditions = calls(askedByConditions)
  private val ofResults = calls(askedByResults)

  /** Whether the results of a match are computed of its rows: their buffers would grow with it. */
  private val isAtEnd =
    spec.isText || ofResults.exists(!_._1.function.aggBufferAttributes.forall { buffer =>
      UnsafeRow.isFixedLength(buffer.dataType) || buffer.dataType == StringType
    })

  /** The results at the end of a match, beside those so far. */
  private val ends: Map[ExprId, Attribute] =
    ofResults.map { case (_, result) => result.exprId -> result.newInstance() }.toMap

  /** A value with the results of functions in the place of the columns for them. */
  private def valued(value: Expression): Expression = value.transformUp {
    case column: Attribute if placeholders.contains(column.exprId) =>
      val number = placeholders(column.exprId)
      val of = AnalysedAggregates.replaced(analysed(number % functions.size).value)
      if (number < functions.size) of
      else of.transform { case result: Attribute => ends.getOrElse(result.exprId, result) }
  }

  private val compiledConditions: Seq[CompiledCondition] = resolvedConditions.map { condition =>
    val (ofRow, ofRun) = conjuncts(condition).partition(isOfRow)
    CompiledCondition(
      ofRow.reduceOption(And).map(read.column),
      ofRun.reduceOption(And).map { condition =>
        AnalysedAggregates.replaced(valued(readable(condition)))
      },
      ofRun.exists(asks(_).nonEmpty)
    )
  }

  private def conjuncts(condition: Expression): Seq[Expression] = condition match {
    case And(left, right) => conjuncts(left) ++ conjuncts(right)
    case other => Seq(other)
  }

  /** What only a plan can compute becomes a column. */
  private def readable(value: Expression): Expression = value match {
    case column: Attribute if placeholders.contains(column.exprId) || isAdded(column) => column
    case column: Attribute => read.column(column)
    case part if isOfRow(part) && needsPlan(part) => read.column(part)
    case other => other.mapChildren(readable)
  }

  private def needsPlan(part: Expression) = !part.deterministic || part.containsAnyPattern(
    TreePattern.CURRENT_LIKE,
    TreePattern.PLAN_EXPRESSION,
    TreePattern.PYTHON_UDF,
    TreePattern.SCALA_UDF
  )

  private val lags = earlier.map(read.column)
  private val ties = order.drop(time.size).map(_.mapChildren(read(_)).asInstanceOf[SortOrder])

  private val rows: OperatorInput = {
    val kept = if (spec.readsLate || spec.allRows) input.columns else Nil
    val columns = (kept ++ input.keys ++ time ++ read.made ++ read.columns)
      .distinctBy(_.exprId)
    val below = Project(columns, input.child)
    OperatorInput(below, InputRows(input.keys, below.output, Nil))
  }

  private def position(column: Attribute) =
    rows.columns.indexWhere(_.exprId == column.exprId)

  private val inRun = if (isAtEnd) ofConditions else ofConditions ++ ofResults
  private val atEnd = if (isAtEnd) ofResults else Nil

  private val body = PatternMatch(
    automaton,
    spec.after,
    spec.finding(!compiledConditions.exists(_.looksBack)),
    PatternRows(
      rows.columns,
      time.map(position),
      ties,
      lagColumns.zip(lags).zip(references.lags).map { case ((column, of), (_, by)) =>
        PatternLag(column, position(of), by)
      },
      flags,
      toldColumns.headOption.getOrElse(AttributeReference("_letter", StringType)())
    ),
    compiledConditions.map { condition =>
      val first = condition.ofRow.map(position)
      condition.ofRun.fold[PatternCondition](PatternCondition.OfRow(first.get)) {
        PatternCondition.OfRun(first, _, condition.looksBack)
      }
    },
    inRun.map(_._1),
    inRun.map(_._2),
    atEnd.map(_._1),
    PatternOutput(
      spec.allRows,
      ofResults.size,
      spec.showsEmpty,
      spec.showsUnmatched,
      Option.when(spec.readsLate)(input.columns.size),
      spec.readsTimeouts
    )
  )

  /** The columns of the operator's main output. The time is named as that of the input, by which it
    * carries on the watermark.
    */
  private val main: StructType = {
    val keys = input.keys.zipWithIndex.map { case (key, i) =>
      StructField(s"_key$i", key.dataType, key.nullable)
    }
    val told = Seq(
      StructField(time.fold("_time")(_.name), TimestampType),
      StructField("_number", LongType),
      StructField("_part", StringType)
    )
    val ofRow =
      if (spec.allRows)
        rows.columns.zipWithIndex.map { case (c, i) => StructField(s"_column$i", c.dataType) }
      else Nil
    val values = ofResults.zipWithIndex.map { case ((call, _), i) =>
      StructField(s"_result$i", call.function.dataType)
    }
    StructType(keys ++ told ++ ofRow ++ values ++ (if (spec.allRows) values else Nil))
  }

  def plan: LogicalPlan = {
    checkNames()
    val late = DataTypeUtils.fromAttributes(input.columns)
    val schema = SideOutput.schema(main, spec.late -> late, spec.timeouts -> main)
    SideOutput.projected(KeyedProcess.of(body, rows, None, schema, operator), spec.late)(values)
  }

  /** The columns of a result, of those of the operator. */
  private def values(of: Seq[NamedExpression]): Seq[NamedExpression] = {
    def shown(column: NamedExpression, name: String) =
      Alias(SideOutput.value(column), name)(explicitMetadata = Some(column.metadata))
    val keys = of.take(input.keys.size)
    val Seq(when, number, part) = of.slice(keys.size, keys.size + 3): @unchecked
    val others = of.drop(keys.size + 3)
    val at = shown(when, MatchTime)
    def columns(shown: Seq[Attribute]) = shown.map { column =>
      Alias(SideOutput.value(others(position(column))), column.name)(explicitMetadata =
        Some(Metadata.empty)
      )
    }
    val named = input.keys.zip(keys).map { case (key, column) => shown(column, key.name) }
    val made = results(
      if (spec.allRows) others.drop(rows.columns.size) else others,
      keys,
      Map(PatternReferences.Number -> number, PatternReferences.Time -> when)
    )
    if (spec.isText) {
      val shownKeys = named.filterNot(_.name == NoKey)
      if (!spec.allRows) shownKeys ++ made
      else {
        val ordered = order.map(_.child).collect { case column: Attribute => column }
        val first = input.keys.filterNot(_.name == NoKey).filter(position(_) >= 0)
        val told = (first ++ ordered).distinctBy(_.exprId)
        val rest = input.columns.filterNot(column => told.exists(_.exprId == column.exprId))
        columns(told) ++ made ++ columns(rest)
      }
    } else if (spec.allRows)
      columns(input.columns) ++ Seq(at, shown(number, MatchNumber), shown(part, MatchPart))
    else named ++ Seq(at) ++ made
  }

  /** @param values
    *   the results of functions: those so far, and then those of the whole match, if rows are shown
    */
  private def results(
      values: Seq[NamedExpression],
      keys: Seq[NamedExpression],
      told: Map[String, NamedExpression]
  ): Seq[NamedExpression] = {
    val running = ofResults.map(_._2.exprId).zip(values)
    val whole =
      ofResults.map(one => ends(one._2.exprId).exprId).zip(values.takeRight(ofResults.size))
    val ofKeys = if (spec.isText) Nil else input.keys.map(_.exprId).zip(keys)
    val ofMatch = toldColumns.drop(1).map(column => column.exprId -> told(column.name))
    val known = (running ++ whole ++ ofKeys ++ ofMatch).toMap
    resolvedResults.map { case (name, result) =>
      val of = valued(result).transformUp {
        case column: Attribute if known.contains(column.exprId) =>
          SideOutput.value(known(column.exprId))
        case column: Attribute =>
          throw KeystateErrors.declaration(
            s"'${column.name}' in result '$name' is a column of many rows: say which one, as " +
              s"first(part.${column.name})."
          )
      }
      val isTime = toldColumns.lift(2).exists(time => result.semanticEquals(time))
      val mark = if (isTime) told(PatternReferences.Time).metadata else Metadata.empty
      Alias(of, name)(explicitMetadata = Some(mark))
    }
  }

  private def checkNames(): Unit = {
    val names =
      if (spec.isText) input.keys.map(_.name) ++ results.map(_._1)
      else if (spec.allRows) input.columns.map(_.name) ++ Seq(MatchTime, MatchNumber, MatchPart)
      else input.keys.map(_.name) ++ Seq(MatchTime) ++ results.map(_._1)
    Names.repeated(names).foreach { name =>
      throw KeystateErrors.declaration(
        s"Two columns of the pattern's result are named '$name': give one another name, with alias."
      )
    }
  }

  private def operator: OperatorSpec = {
    def state(name: String, key: DataType, value: StructType) =
      StateSpec(name, StateKind.SortedMap, "sorted map", value, Some(key), StoredOrder.Natural)
    OperatorSpec(
      spec.name,
      spec.maxParallelism,
      if (isStreaming) TimeMode.EventTime else TimeMode.NoTime,
      timers = true,
      Seq(
        state(PatternMatch.Waiting, PatternMatch.WaitingKey, body.rows.stored),
        StateSpec(
          PatternMatch.Counters,
          StateKind.Value,
          "value",
          PatternMatch.CountersType,
          None,
          StoredOrder.Natural
        ),
        state(PatternMatch.Matches, LongType, PatternMatch.MatchType).copy(pattern = Some(record)),
        state(PatternMatch.Taken, LongType, PatternMatch.TakenType),
        state(PatternMatch.Rows, LongType, body.rows.stored)
      ),
      sideOutputs = hasSides,
      metrics = true,
      lateOutputs = Option.when(spec.readsLate)(Some(1)).toSeq,
      rowHandling = RowHandling(lateRows = true)
    )
  }

  /** What partial matches depend on. A condition on a row may change. */
  private def record: PatternRecord = {
    val buffers = inRun.map { case (call, _) =>
      val types = call.function.aggBufferAttributes.map(_.dataType.sql).mkString(", ")
      val of =
        call.filter.map(f => flags.find(_._1 == f).get._2.map(automaton.letters).mkString(","))
      s"${call.function.prettyName} of ${of.getOrElse("all")} ($types)"
    }
    PatternRecord(
      spec.record ++ Seq(
        "what is kept of functions" -> buffers.mkString("; "),
        "whether rows are kept" -> body.keepsRows.toString
      )
    )
  }
}

/** What the operator of a pattern does, however the pattern was written.
  *
  * @param finding
  *   which matches are wanted, by whether no condition looks at what a run has taken
  * @param record
  *   what partial matches depend on, by its names
  * @param isText
  *   whether it was written as SQL, which has other columns
  */
private[plan] final case class PlannedPattern(
    name: Option[String],
    maxParallelism: Option[Int],
    after: AfterMatch,
    finding: Boolean => PatternFinding,
    allRows: Boolean,
    showsEmpty: Boolean = false,
    showsUnmatched: Boolean = false,
    late: Option[SideOutput] = None,
    timeouts: Option[SideOutput] = None,
    record: Seq[(String, String)] = Nil,
    isText: Boolean = false
) extends DeclaresLate {
  def readsTimeouts: Boolean = timeouts.exists(_.isRead)
}

/** @param ofRow
  *   a column that has to be true
  * @param ofRun
  *   what has to be true besides
  * @param looksBack
  *   whether that asks for results of functions
  */
private final case class CompiledCondition(
    ofRow: Option[Attribute],
    ofRun: Option[Expression],
    looksBack: Boolean
)
