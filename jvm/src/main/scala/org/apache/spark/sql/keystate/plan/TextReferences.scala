package org.apache.spark.sql.keystate.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedFunction}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, First, Last}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.types.IntegerType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.expression.NthTaken

/** The functions of `MATCH_RECOGNIZE`: those that find a row of a match, and aggregates. A column of a
  * letter is that of the last row that was taken as it.
  */
private[plan] final class TextReferences(df: ClassicDataset[_], letters: Map[String, Set[Int]])
    extends PatternReferences(df, letters) {
  import PatternReferences._

  private val lagged = mutable.ArrayBuffer.empty[(Expression, Int)]
  private var isFinal = false
  private var isMeasure = false

  override def lags: Seq[(Expression, Int)] = lagged.toSeq

  def condition(expression: Expression): Expression = take(expression)

  /** A measure. */
  def measure(expression: Expression): Expression = {
    isMeasure = true
    try take(expression)
    finally isMeasure = false
  }

  override def take(expression: Expression): Expression = expression match {
    case call: UnresolvedFunction if call.nameParts.size == 1 =>
      call.nameParts.head.toLowerCase match {
        case Running | Final =>
          if (!isMeasure)
            throw refuse("FINAL and RUNNING are for MEASURES; conditions are RUNNING in any case")
          val before = isFinal
          isFinal = call.nameParts.head == Final
          try take(call.arguments.head)
          finally isFinal = before
        case "classifier" =>
          val names = call.arguments.map {
            case UnresolvedAttribute(Seq(name)) => letter(name)
            case other => throw refuse(s"CLASSIFIER of ${other.sql}: give the name of a letter")
          }
          of(UnresolvedAttribute(Seq(Letter)), 0, fromLast = true, names)
        case "match_number" | "match_rowtime" =>
          if (!isMeasure) throw refuse(s"${call.nameParts.head.toUpperCase} is for MEASURES")
          UnresolvedAttribute(
            Seq(if (call.nameParts.head.equalsIgnoreCase("match_number")) Number else Time)
          )
        case "next" =>
          throw refuse("NEXT looks at rows that have not come yet: it is not supported")
        case "first" | "last" | "prev" => navigation(call, 0)
        case _ if isAggregate(call) => aggregate(call)
        case _ => call.mapChildren(take)
      }
    case plain @ Plain(_, _) => navigation(plain, 0)
    case call: AggregateExpression => aggregate(call)
    case column: UnresolvedAttribute if letterOf(column.nameParts).nonEmpty || isMeasure =>
      navigation(column, 0)
    case other => other.mapChildren(take)
  }

  private def refuse(problem: String) = KeystateErrors.declaration(s"MATCH_RECOGNIZE: $problem.")

  private def letter(name: String): String = letters.keys
    .find(isSame(_, name))
    .getOrElse(throw refuse(s"there is no letter '$name', but ${letters.keys.mkString(", ")}"))

  private def offset(call: UnresolvedFunction, default: Int): Int = call.arguments.drop(1) match {
    case Nil => default
    case Seq(Literal(offset: Int, IntegerType)) if offset >= 0 && offset <= 1000 => offset
    case other =>
      throw refuse(
        s"${call.nameParts.head} has the offset ${other.map(_.sql).mkString(", ")}, no " +
          "number from 0 to 1000"
      )
  }

  /** @param before
    *   how many rows before the row that is found
    */
  private def navigation(expression: Expression, before: Int): Expression = expression match {
    case Plain(child, fromLast) =>
      val (value, names) = stripped(child)
      of(earlier(value, before), 0, fromLast, names)
    case call: UnresolvedFunction if isCall(call, "prev") =>
      navigation(call.arguments.head, before + offset(call, 1))
    case call: UnresolvedFunction if isCall(call, "first") || isCall(call, "last") =>
      val (value, names) = stripped(call.arguments.head)
      of(earlier(value, before), offset(call, 0), isCall(call, "last"), names)
    case other =>
      val (value, names) = stripped(other)
      // The row at hand is the last one.
      if (names.isEmpty && !isMeasure) earlier(value, before)
      else of(earlier(value, before), 0, fromLast = true, names)
  }

  private def isCall(call: UnresolvedFunction, name: String) =
    call.nameParts.size == 1 && call.nameParts.head.equalsIgnoreCase(name)

  private def earlier(value: Expression, before: Int): Expression =
    if (before == 0) value
    else {
      val known = lagged.indexOf(value -> before)
      if (known < 0) lagged += value -> before
      UnresolvedAttribute(Seq(lag(if (known < 0) lagged.size - 1 else known)))
    }

  private def of(value: Expression, offset: Int, fromLast: Boolean, names: Seq[String]) =
    marked(add(NthTaken(value, offset, fromLast).toAggregateExpression(), names))

  private def marked(column: Expression): Expression = column match {
    case UnresolvedAttribute(Seq(name)) if isFinal => UnresolvedAttribute(Seq(atEnd(name)))
    case other => other
  }

  override protected def aggregate(call: Expression): Expression = marked(super.aggregate(call))

  /** `FIRST(x)` and `LAST(x)`, of which Spark's parser makes aggregate functions at once. */
  private object Plain {
    def unapply(expression: Expression): Option[(Expression, Boolean)] = expression match {
      case AggregateExpression(First(child, false), _, false, None, _) => Some(child -> false)
      case AggregateExpression(Last(child, false), _, false, None, _) => Some(child -> true)
      case _ => None
    }
  }
}
