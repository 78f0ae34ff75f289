package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BasePredicate, GenericInternalRow, JoinedRow, Predicate, UnsafeRow
}
import org.apache.spark.unsafe.types.UTF8String

/** What a run has taken.
  *
  * @param taken
  *   the number of the entry of its last row; -1 if it has none, or rows are not kept
  * @param buffers
  *   those of the functions, as they are stored; null if there are none
  */
private[expression] final case class History(taken: Long, buffers: Array[Byte])

private[expression] object History {
  val None: History = History(-1, null)
}

/** A pattern's conditions and functions, evaluated. One thread at a time; it is kept from task to
  * task, for what it generates costs as much as some thousand rows.
  */
private[expression] final class PatternFunctions(pattern: PatternMatch) extends AutoCloseable {
  import pattern.rows

  private val letters = pattern.automaton.letters.map(UTF8String.fromString)
  private val inRun = of(pattern.inRun)
  private val atEnd = of(pattern.atEnd)

  /** The functions with the results of a match. */
  val results: AggregateBuffers = if (pattern.atEnd.nonEmpty) atEnd else inRun

  private val predicates: Array[BasePredicate] = pattern.conditions.map {
    case PatternCondition.OfRow(_) => null
    case PatternCondition.OfRun(_, condition, _) =>
      Predicate.create(condition, rows.columns ++ rows.lags.map(_.column) ++ pattern.inRunResults)
  }.toArray

  private val flags = letters.indices.map { letter =>
    val row = new GenericInternalRow(rows.flags.size + 1)
    rows.flags.zipWithIndex.foreach { case ((_, of), i) => row.update(i, of(letter)) }
    row.update(rows.flags.size, letters(letter))
    row: InternalRow
  }

  private val seen = new JoinedRow
  private val evaluated = new JoinedRow
  private val nothing = new GenericInternalRow(0)

  private def of(functions: Seq[FilteredFunction]) = new AggregateBuffers(
    Seq(AggregateColumn("functions", functions)),
    AggregateInput.Rows(rows.seen),
    Nil,
    None
  )

  def name(letter: Int): UTF8String = if (letter < 0) null else letters(letter)

  def hasRunFunctions: Boolean = pattern.inRun.nonEmpty

  /** Adds a row, with its earlier values, that is taken as a letter. */
  def add(buffers: Buffers, row: InternalRow, letter: Int): Unit =
    results.add(buffers, seen(row, flags(letter)))

  /** The stored buffers of a run with one row more. */
  def taken(before: Array[Byte], row: InternalRow, letter: Int): Array[Byte] =
    if (!hasRunFunctions) null
    else {
      val buffers = read(before)
      inRun.add(buffers, seen(row, flags(letter)))
      inRun.write(buffers)
    }

  private def read(stored: Array[Byte]) =
    if (stored == null) inRun.create() else inRun.read(stored)

  /** The results of a run's functions. The same row each time. */
  def runResults(stored: Array[Byte]): UnsafeRow = inRun.results(nothing, read(stored))

  /** The results of the functions of a match. The same row each time. */
  def endResults(buffers: Buffers): UnsafeRow = results.results(nothing, buffers)

  /** Whether a row, with its earlier values, meets a condition.
    *
    * @param own
    *   the letter that it counts as meanwhile; -1: none
    */
  def holds(number: Int, row: InternalRow, history: History, own: Int): Boolean =
    pattern.conditions(number) match {
      case PatternCondition.OfRow(column) => isTrue(row, column)
      case PatternCondition.OfRun(first, _, looksBack) =>
        first.forall(isTrue(row, _)) && {
          val found =
            if (!looksBack) nothing
            else if (own < 0) runResults(history.buffers)
            else runResults(taken(history.buffers, row, own))
          predicates(number).eval(evaluated(row, found))
        }
    }

  private def isTrue(row: InternalRow, column: Int) =
    !row.isNullAt(column) && row.getBoolean(column)

  /** Nothing is open. */
  override def close(): Unit = ()
}
