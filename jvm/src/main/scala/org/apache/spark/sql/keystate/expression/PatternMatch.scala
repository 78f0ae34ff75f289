package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

import keystate.pattern.{AfterMatch, Automaton}
import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.DueTimers

/** Finds matches of a pattern among the rows of a key.
  *
  * A row of the output has the key, when it was decided, the number of the match, and then what
  * [[PatternOutput]] says; in a struct of its own if side outputs are read.
  *
  * @param conditions
  *   the conditions, by their numbers
  * @param inRun
  *   the functions whose buffers each partial match has: those that conditions ask for, and those of
  *   results if rows are not kept
  * @param inRunResults
  *   their results, as conditions name them
  * @param atEnd
  *   functions that are computed of the rows of a match once it is decided
  */
private[keystate] final case class PatternMatch(
    automaton: Automaton,
    after: AfterMatch,
    finding: PatternFinding,
    rows: PatternRows,
    conditions: Seq[PatternCondition],
    inRun: Seq[FilteredFunction],
    inRunResults: Seq[Attribute],
    atEnd: Seq[FilteredFunction],
    output: PatternOutput
) extends OperatorFunction
    with FunctionRunner {

  override def notInRealTime: Option[String] = Some("A pattern")

  override def toString: String = automaton.letters.mkString("Pattern(", ", ", ")")

  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

  override def run(taken: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass =
    new PatternPass(this, taken, due, context)

  /** Whether the rows that a partial match has taken are kept. */
  def keepsRows: Boolean = output.allRows || atEnd.nonEmpty || finding.keepsRows
}

/** Which matches are wanted. */
private[keystate] sealed trait PatternFinding {

  /** Whether rows are kept whatever goes out. */
  private[expression] def keepsRows: Boolean
}

private[keystate] object PatternFinding {

  /** All runs.
    *
    * @param mostRuns
    *   how many partial matches a key may have
    * @param drops
    *   whether those that began first are dropped if there are more; else the query fails
    */
  final case class All(mostRuns: Int, drops: Boolean) extends PatternFinding {
    override private[expression] def keepsRows = false
  }

  /** The preferred one of each row.
    *
    * @param merges
    *   whether no condition looks at what a run has taken
    */
  final case class Preferred(mostRuns: Int, merges: Boolean) extends PatternFinding {
    override private[expression] def keepsRows = true
  }
}

/** The rows that are matched.
  *
  * @param columns
  *   the columns that the operator sees, by position
  * @param time
  *   the position of the time, a timestamp; None: all rows have the same one
  * @param order
  *   which of the rows of a time come first
  * @param lags
  *   the values that earlier rows of the key had, for conditions and functions
  * @param flags
  *   a column for each set of letters: whether the row is taken as one of them
  * @param letter
  *   the column with the name of the letter that the row is taken as
  */
private[keystate] final case class PatternRows(
    columns: Seq[Attribute],
    time: Option[Int],
    order: Seq[SortOrder],
    lags: Seq[PatternLag],
    flags: Seq[(Attribute, Set[Int])],
    letter: Attribute
) {

  /** What functions are applied to. */
  def seen: Seq[Attribute] = columns ++ lags.map(_.column) ++ flags.map(_._1) :+ letter

  def stored: StructType =
    StructType(columns.map(column => StructField(column.name, column.dataType)))

  /** The time of a row, in us. */
  def timeOf(row: InternalRow): Long = time.fold(0L)(row.getLong)
}

/** @param of
  *   the position of the value
  * @param by
  *   how many rows before
  */
private[keystate] final case class PatternLag(column: Attribute, of: Int, by: Int)

/** A condition. */
private[keystate] sealed trait PatternCondition

private[keystate] object PatternCondition {

  /** A boolean column of the row. */
  final case class OfRow(column: Int) extends PatternCondition

  /** An expression over the columns of the row, earlier values, and the results of functions.
    *
    * @param first
    *   a boolean column of the row that has to be true too
    * @param looksBack
    *   whether it has results of functions
    */
  final case class OfRun(first: Option[Int], condition: Expression, looksBack: Boolean)
      extends PatternCondition
}

/** What goes out.
  *
  * @param allRows
  *   whether there is a row for each row of a match, with its columns, its letter, and the results of
  *   functions so far before those of the whole match; else one row a match, with the latter
  * @param results
  *   how many functions have their results there: the last ones of those in runs, or those at the end
  * @param showsEmpty
  *   whether an empty match has a row
  * @param showsUnmatched
  *   whether rows in no match go out too
  * @param late
  *   how many of the first columns late rows are emitted with; None if they are dropped
  * @param timeouts
  *   whether partial matches whose time is over are emitted
  */
private[keystate] final case class PatternOutput(
    allRows: Boolean,
    results: Int,
    showsEmpty: Boolean,
    showsUnmatched: Boolean,
    late: Option[Int],
    timeouts: Boolean
) {
  def hasSides: Boolean = late.nonEmpty || timeouts
}

private[keystate] object PatternMatch {

  /** The states: rows that the watermark has not passed; what is counted of a key; its partial
    * matches; which rows they have taken, each with the one before it; and these rows.
    */
  val Waiting = "_waiting"
  val Counters = "_pattern"
  val Matches = "_matches"
  val Taken = "_taken"
  val Rows = "_rows"

  /** A row that waits is under its time and its number. */
  val WaitingKey: StructType = new StructType().add("time", TimestampType).add("number", LongType)

  /** `rows`, `matches`, `taken`: the numbers of the next ones. `kept`: how many entries of what was
    * taken there are, and `needed` how many of them were needed when they were looked through.
    * The others are of the preferred match: see `Attempt`.
    */
  val CountersType: StructType = StructType(
    Seq("rows", "matches", "found", "taken", "kept", "needed", "position", "matched_to", "next")
      .map(StructField(_, LongType))
  )

  /** See `Run` and `Thread`. */
  val MatchType: StructType = new StructType()
    .add("point", IntegerType)
    .add("open", LongType)
    .add("is_first", BooleanType)
    .add("first", LongType)
    .add("began", TimestampType)
    .add("last", LongType)
    .add("took", TimestampType)
    .add("skip_to", LongType)
    .add("taken", LongType)
    .add("done", TimestampType)
    .add("buffers", BinaryType)

  val TakenType: StructType =
    new StructType().add("before", LongType).add("letter", IntegerType).add("row", LongType)

  /** The metrics of rows that came too late, and of partial matches that were dropped. */
  val LateRows = "numLateRecordsDropped"
  val DroppedMatches = "numPartialMatchesDropped"
}
