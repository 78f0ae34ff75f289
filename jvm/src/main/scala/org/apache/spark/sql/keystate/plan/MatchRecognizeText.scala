package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, Literal}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.types.DayTimeIntervalType

import keystate.errors.KeystateErrors
import keystate.pattern.{AfterMatch, RowPattern}

/** What is in the brackets of `MATCH_RECOGNIZE (...)`. Expressions are as Spark's parser has them.
  *
  * @param order
  *   the text of each column, as of ORDER BY
  * @param within
  *   in us
  * @param unions
  *   the letters of each subset
  */
private[plan] final case class MatchRecognizeText(
    partition: Seq[Expression],
    order: Seq[String],
    measures: Seq[(String, Expression)],
    allRows: Boolean,
    showsEmpty: Boolean,
    showsUnmatched: Boolean,
    after: AfterMatch,
    pattern: RowPattern,
    within: Option[Long],
    unions: Map[String, Seq[String]],
    conditions: Seq[(String, Expression)]
)

private[plan] object MatchRecognizeText {
  def parse(text: String, parser: ParserInterface): MatchRecognizeText =
    new Reader(text, parser).read()

  /** A piece of the text, and how deep it is in brackets. */
  private final case class Token(text: String, start: Int, end: Int, depth: Int) {
    def is(word: String): Boolean = text.equalsIgnoreCase(word)
  }

  private val Tokens =
    """(?s)\s+|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|[\w$]+|.""".r

  /** The clauses in their order, by the words that they begin with. */
  private val Clauses = Seq(
    Seq("PARTITION", "BY"),
    Seq("ORDER", "BY"),
    Seq("MEASURES"),
    Seq("ONE", "ROW", "PER", "MATCH"),
    Seq("ALL", "ROWS", "PER", "MATCH"),
    Seq("AFTER", "MATCH", "SKIP"),
    Seq("INITIAL"),
    Seq("SEEK"),
    Seq("PATTERN", "("),
    Seq("WITHIN"),
    Seq("SUBSET"),
    Seq("DEFINE")
  )

  private final class Reader(text: String, parser: ParserInterface) {
    private val tokens: IndexedSeq[Token] = {
      var depth = 0
      Tokens
        .findAllMatchIn(text)
        .filterNot(m =>
          m.matched.isBlank || m.matched.startsWith("--") || m.matched.startsWith("/*")
        )
        .map { m =>
          if (m.matched == ")") depth -= 1
          val token = Token(m.matched, m.start, m.end, depth)
          if (m.matched == "(") depth += 1
          token
        }
        .toIndexedSeq
    }

    private def refuse(problem: String) =
      throw KeystateErrors.declaration(s"MATCH_RECOGNIZE: $problem.")

    /** The tokens of each clause, by its first words, without these. */
    private val clauses: Map[String, IndexedSeq[Token]] = {
      val starts = for {
        i <- tokens.indices
        if tokens(i).depth == 0
        (words, rank) <- Clauses.zipWithIndex
        if words.indices.forall(k => i + k < tokens.size && tokens(i + k).is(words(k)))
      } yield (i, words, rank)
      // Words that come too early in the order are names within a clause.
      val inOrder = starts.foldLeft(Vector.empty[(Int, Seq[String], Int)]) { (before, start) =>
        if (before.lastOption.exists(_._3 >= start._3)) before else before :+ start
      }
      if (inOrder.headOption.map(_._1).getOrElse(0) != 0)
        refuse(s"'${tokens.head.text}' is not expected at its begin")
      if (tokens.exists(_.depth < 0)) refuse("a bracket is closed that is not open")
      val ends = inOrder.drop(1).map(_._1) :+ tokens.size
      inOrder
        .zip(ends)
        .map { case ((from, words, _), to) =>
          words.mkString(" ") -> tokens.slice(from + words.size, to)
        }
        .toMap
    }

    private def source(of: Seq[Token]) =
      if (of.isEmpty) "" else text.substring(of.head.start, of.last.end)

    private def items(clause: String): Seq[IndexedSeq[Token]] =
      clauses.get(clause).fold(Seq.empty[IndexedSeq[Token]]) { of =>
        val commas = of.indices.filter(i => of(i).text == "," && of(i).depth == 0)
        val items = (-1 +: commas).zip(commas :+ of.size).map { case (a, b) => of.slice(a + 1, b) }
        if (items.exists(_.isEmpty)) refuse(s"a part of $clause is empty")
        items
      }

    private def expression(of: IndexedSeq[Token]): Expression =
      try parser.parseExpression(rewritten(of))
      catch {
        case e: ParseException =>
          throw KeystateErrors.declaration(s"MATCH_RECOGNIZE: ${source(of)}: ${e.getMessage}", e)
      }

    /** Makes FINAL and RUNNING, which stand before a call, calls around it. */
    private def rewritten(of: IndexedSeq[Token]): String = {
      val before = new StringBuilder(source(of))
      val offset = of.head.start
      val marks = for {
        i <- of.indices.dropRight(2)
        if (of(i).is("FINAL") || of(i).is("RUNNING")) && of(i + 2).text == "("
      } yield {
        val close = of.indexWhere(t => t.text == ")" && t.depth == of(i + 2).depth, i + 2)
        if (close < 0) refuse(s"a bracket is not closed in ${source(of)}")
        (of(i), of(close))
      }
      val inserts = marks.map(m => (m._2.end - offset, 0, ")")) ++ marks.map { case (mark, _) =>
        val name =
          if (mark.is("FINAL")) PatternReferences.Final else PatternReferences.Running
        (mark.start - offset, mark.text.length, s"$name(")
      }
      inserts.sortBy(-_._1).foreach { case (at, length, by) => before.replace(at, at + length, by) }
      before.result()
    }

    private def name(token: Token): String = token.text match {
      case quoted if quoted.length > 1 && "`\"".contains(quoted.head) =>
        quoted.substring(1, quoted.length - 1)
      case plain => plain
    }

    def read(): MatchRecognizeText = {
      if (clauses.contains("SEEK")) refuse("SEEK is not supported")
      val pattern = clauses.getOrElse("PATTERN (", refuse("there is no PATTERN"))
      if (!clauses.contains("DEFINE")) refuse("there is no DEFINE")
      if (pattern.lastOption.forall(t => t.text != ")" || t.depth != 0))
        refuse(s"PATTERN is not closed before '${source(pattern.takeRight(3))}'")
      val (allRows, empty, unmatched) = rows
      MatchRecognizeText(
        items("PARTITION BY").map(expression),
        items("ORDER BY").map(source),
        items("MEASURES").map { item =>
          expression(item) match {
            case Alias(child, name) => name -> child
            case _ => refuse(s"the measure ${source(item)} has no name: add AS and a name")
          }
        },
        allRows,
        empty,
        unmatched,
        after,
        RowPattern.parse(source(pattern.init)),
        clauses.get("WITHIN").map(within),
        items("SUBSET").map(subset).toMap,
        items("DEFINE").map { item =>
          if (item.size < 3 || !item(1).is("AS")) refuse(s"DEFINE ${source(item)}: A AS condition")
          name(item.head) -> expression(item.drop(2))
        }
      )
    }

    private def rows: (Boolean, Boolean, Boolean) = {
      def words(clause: String) = clauses.get(clause).map(_.map(_.text.toUpperCase).mkString(" "))
      (words("ONE ROW PER MATCH"), words("ALL ROWS PER MATCH")) match {
        case (None | Some(""), None) => (false, true, false)
        case (None, Some("" | "SHOW EMPTY MATCHES")) => (true, true, false)
        case (None, Some("OMIT EMPTY MATCHES")) => (true, false, false)
        case (None, Some("WITH UNMATCHED ROWS")) => (true, true, true)
        case (one, all) =>
          refuse(s"'${(one ++ all).mkString(" ")}' is not expected after PER MATCH")
      }
    }

    private def after: AfterMatch = clauses.get("AFTER MATCH SKIP") match {
      case None => AfterMatch.PastLast
      case Some(of) =>
        of.map(_.text.toUpperCase).toList match {
          case List("PAST", "LAST", "ROW") => AfterMatch.PastLast
          case List("TO", "NEXT", "ROW") => AfterMatch.ToNext
          case List("TO", "FIRST", _) => AfterMatch.To(name(of(2)), last = false, needed = true)
          case List("TO", "LAST", _) => AfterMatch.To(name(of(2)), last = true, needed = true)
          case List("TO", _) => AfterMatch.To(name(of(1)), last = true, needed = true)
          case _ => refuse(s"AFTER MATCH SKIP ${source(of)} is not known")
        }
    }

    private def within(of: IndexedSeq[Token]): Long = expression(of) match {
      case Literal(micros: Long, _: DayTimeIntervalType) if micros > 0 => micros
      case _ => refuse(s"WITHIN ${source(of)} is no positive interval of days and less")
    }

    private def subset(item: IndexedSeq[Token]): (String, Seq[String]) = {
      if (item.size < 5 || item(1).text != "=" || item(2).text != "(" || item.last.text != ")")
        refuse(s"SUBSET ${source(item)}: U = (A, B)")
      name(item.head) -> item.slice(3, item.size - 1).filter(_.text != ",").map(name)
    }
  }
}
