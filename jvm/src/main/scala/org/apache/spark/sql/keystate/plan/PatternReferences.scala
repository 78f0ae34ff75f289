package org.apache.spark.sql.keystate.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  UnresolvedAttribute, UnresolvedFunction, UnresolvedStar
}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}

import keystate.errors.KeystateErrors

/** A function over the rows that a run has taken as some letters, as it is written.
  *
  * @param letters
  *   the numbers of the letters; None: all rows
  */
private[plan] final case class LetterFunction(call: Expression, letters: Option[Set[Int]])

/** Takes functions over letters out of expressions before Spark analyses them, for Spark knows no
  * letters.
  *
  * @param letters
  *   what names stand for
  */
private[plan] class PatternReferences(df: ClassicDataset[_], letters: Map[String, Set[Int]]) {
  private val found = mutable.ArrayBuffer.empty[LetterFunction]
  private val session = df.sparkSession
  protected val isSame: (String, String) => Boolean = session.sessionState.conf.resolver

  letters.keys.find(name => df.columns.exists(isSame(_, name))).foreach { name =>
    throw KeystateErrors.declaration(
      s"Part '$name' of the pattern is named as a column is: give it another name, so that " +
        s"'$name.x' is clear."
    )
  }

  /** The functions that were taken out, by their numbers. */
  def functions: Seq[LetterFunction] = found.toSeq

  /** Values of earlier rows, and how many rows before, by their numbers: see `lag`. */
  def lags: Seq[(Expression, Int)] = Nil

  /** The expression with a column of its own, see `PatternReferences.column`, for each function. */
  def take(expression: Expression): Expression = expression match {
    case call: UnresolvedFunction if isAggregate(call) => aggregate(call)
    case call: AggregateExpression => aggregate(call) // of FIRST and LAST Spark's parser makes it
    case column: UnresolvedAttribute if letterOf(column.nameParts).nonEmpty => bare(column)
    case other => other.mapChildren(take)
  }

  /** A column of a letter outside of all functions. */
  protected def bare(column: UnresolvedAttribute): Expression =
    throw KeystateErrors.declaration(
      s"'${column.name}' is a column of many rows: say which one, by first, last or another " +
        "aggregate function."
    )

  protected def letterOf(parts: Seq[String]): Option[String] =
    if (parts.size < 2) None else letters.keys.find(isSame(_, parts.head))

  protected def add(call: Expression, names: Seq[String]): Expression = {
    val sets = names.distinct.map(letters)
    if (sets.distinct.size > 1)
      throw KeystateErrors.declaration(
        s"A function is over rows of ${names.distinct.mkString("'", "' and '", "'")}: it can be over " +
          "those of one part only."
      )
    val function = LetterFunction(call, sets.headOption)
    val known = found.indexWhere(one => one.letters == function.letters && one.call == call)
    if (known < 0) found += function
    UnresolvedAttribute(Seq(PatternReferences.column(if (known < 0) found.size - 1 else known)))
  }

  protected def aggregate(call: Expression): Expression = {
    val isFiltered = call match {
      case call: UnresolvedFunction => call.filter.nonEmpty
      case call: AggregateExpression => call.filter.nonEmpty
      case _ => false
    }
    if (isFiltered)
      throw KeystateErrors.declaration(
        "FILTER can't be used in a pattern, for functions are over rows of a part: use a CASE in the " +
          "argument."
      )
    val (plain, names) = stripped(call)
    add(plain, names)
  }

  /** An expression without letters, and those that were in it. */
  protected def stripped(expression: Expression): (Expression, Seq[String]) = {
    val names = mutable.ArrayBuffer.empty[String]
    val plain = expression.transform {
      case UnresolvedStar(Some(parts)) if letterOf(parts :+ "").nonEmpty =>
        names += letterOf(parts :+ "").get
        Literal(1)
      case column: UnresolvedAttribute =>
        letterOf(column.nameParts).fold(column) { name =>
          names += name
          UnresolvedAttribute(column.nameParts.tail)
        }
    }
    (plain, names.toSeq)
  }

  protected def isAggregate(call: UnresolvedFunction): Boolean =
    call.nameParts.size == 1 && {
      val catalog = session.sessionState.catalog
      val name = FunctionIdentifier(call.nameParts.head)
      catalog.isRegisteredFunction(name) &&
      catalog.lookupFunctionInfo(name).getGroup == "agg_funcs"
    }
}

private[plan] object PatternReferences {

  /** The name of the column for a function; that for its value at the end of a match; that for the
    * value of an earlier row.
    */
  def column(number: Int): String = s"_pattern_$number"
  def atEnd(column: String): String = s"${column}_end"
  def lag(number: Int): String = s"_pattern_lag$number"

  /** The columns with the name of a row's letter, and with the number and the time of its match. */
  val Letter = "_pattern_letter"
  val Number = "_pattern_number"
  val Time = "_pattern_time"

  /** Functions that stand for what comes before a call in the text. */
  val Running = "_pattern_running"
  val Final = "_pattern_final"
}
