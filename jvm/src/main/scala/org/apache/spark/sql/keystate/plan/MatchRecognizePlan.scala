package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.ExpressionUtils.column
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{expr, lit}

import keystate.errors.KeystateErrors
import keystate.pattern.{AfterMatch, RowPattern}
import org.apache.spark.sql.keystate.expression.PatternFinding

/** Plans what is in the brackets of SQL's `MATCH_RECOGNIZE (...)`, over a Dataset. */
private[keystate] object MatchRecognizePlan {
  def of(df: ClassicDataset[_], text: String, name: Option[String]): LogicalPlan =
    new MatchRecognizePlan(
      df,
      MatchRecognizeText.parse(text, df.sparkSession.sessionState.sqlParser)
    )
      .plan(name)

  /** A column of ORDER BY, its direction, and where its nulls are. */
  private val Order = """(?is)^(.*?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?$""".r
}

private final class MatchRecognizePlan(df: ClassicDataset[_], text: MatchRecognizeText) {
  private val isSame = df.sparkSession.sessionState.conf.resolver

  private def refuse(problem: String) =
    throw KeystateErrors.declaration(s"MATCH_RECOGNIZE: $problem.")

  /** The letters, each as it is written first. */
  private val letters: Seq[String] = RowPattern
    .letters(text.pattern)
    .foldLeft(Vector.empty[String])((known, one) =>
      if (known.exists(isSame(_, one))) known else known :+ one
    )

  private def letter(name: String, where: String): String = letters
    .find(isSame(_, name))
    .getOrElse(
      refuse(s"$where names '$name', but the letters of PATTERN are ${letters.mkString(", ")}")
    )

  private def spelled(pattern: RowPattern): RowPattern = pattern match {
    case RowPattern.Letter(name) => RowPattern.Letter(letter(name, "PATTERN"))
    case RowPattern.InOrder(parts) => RowPattern.InOrder(parts.map(spelled))
    case RowPattern.OneOf(parts) => RowPattern.OneOf(parts.map(spelled))
    case repeated: RowPattern.Repeated => repeated.copy(part = spelled(repeated.part))
  }

  private val conditions = text.conditions.map { case (name, condition) =>
    letter(name, "DEFINE") -> condition
  }
  conditions.map(_._1).diff(letters).headOption.foreach(name => refuse(s"DEFINE has '$name' twice"))

  private val numbers = letters.zipWithIndex.toMap
  private val unions = text.unions.map { case (name, of) =>
    if (letters.exists(isSame(_, name))) refuse(s"SUBSET '$name' is named as a letter is")
    name -> of.map(one => numbers(letter(one, s"SUBSET $name"))).toSet
  }

  /** A subset as what one skips to is more than one letter. */
  private val after = text.after match {
    case to: AfterMatch.To => to.copy(name = letter(to.name, "AFTER MATCH SKIP"))
    case other => other
  }

  def plan(name: Option[String]): LogicalPlan = {
    val pattern = spelled(text.pattern)
    val automaton =
      RowPattern.compile(pattern, conditions.map(_._1).zipWithIndex.toMap, text.within)
    val references =
      new TextReferences(df, numbers.map { case (name, i) => name -> Set(i) } ++ unions)
    val keys =
      if (text.partition.isEmpty) Seq(lit(0).as(PatternPlan.NoKey))
      else text.partition.map(column(_))
    val plan = new PatternPlan(
      df,
      OperatorInput.byColumns(df, keys, text.order.map(ordered)),
      automaton,
      references,
      conditions.map(one => references.condition(one._2)),
      text.measures.map { case (name, value) => name -> references.measure(value) },
      PlannedPattern(
        name,
        None,
        after,
        PatternFinding.Preferred(PatternSpec.MostMatches, _),
        text.allRows,
        text.showsEmpty,
        text.showsUnmatched,
        record = Seq(
          "its PATTERN" -> pattern.toString,
          "WITHIN" -> text.within.fold("none")(_.toString),
          "AFTER MATCH SKIP" -> after.toString
        ),
        isText = true
      )
    )
    plan.plan
  }

  /** A column of ORDER BY, with what stands behind it. */
  private def ordered(item: String): Column = {
    val parts = MatchRecognizePlan.Order.findFirstMatchIn(item).get
    val value = expr(parts.group(1))
    val isDescending = Option(parts.group(2)).exists(_.equalsIgnoreCase("DESC"))
    // SQL's default is Spark's: nulls come first, and last if it is descending.
    Option(parts.group(3)).map(_.toUpperCase) match {
      case None => if (isDescending) value.desc else value.asc
      case Some("FIRST") => if (isDescending) value.desc_nulls_first else value.asc_nulls_first
      case _ => if (isDescending) value.desc_nulls_last else value.asc_nulls_last
    }
  }
}
