package keystate.pattern

import keystate.errors.KeystateErrors

/** A pattern of SQL: a regular expression whose letters are the names of conditions. */
sealed trait RowPattern

object RowPattern {
  final case class Letter(name: String) extends RowPattern
  final case class InOrder(parts: Seq[RowPattern]) extends RowPattern

  /** One of these, the first that leads to a match. */
  final case class OneOf(parts: Seq[RowPattern]) extends RowPattern

  /** @param most
    *   None: any number of times
    * @param eager
    *   whether more times are preferred to fewer
    */
  final case class Repeated(part: RowPattern, least: Int, most: Option[Int], eager: Boolean)
      extends RowPattern

  /** The letters in their order, each once. */
  def letters(pattern: RowPattern): Seq[String] = (pattern match {
    case Letter(name) => Seq(name)
    case InOrder(parts) => parts.flatMap(letters)
    case OneOf(parts) => parts.flatMap(letters)
    case Repeated(part, _, _, _) => letters(part)
  }).distinct

  /** Compiles a pattern, of which the preferred match is wanted.
    *
    * @param conditions
    *   the numbers of the letters' conditions; letters without one take any row
    */
  def compile(
      pattern: RowPattern,
      conditions: Map[String, Int],
      within: Option[Long]
  ): Automaton = {
    val names = letters(pattern).toIndexedSeq
    new Points(names, within, preferred = true).of(new Steps(names, conditions).of(pattern))
  }

  private final class Steps(names: IndexedSeq[String], conditions: Map[String, Int]) {
    def of(pattern: RowPattern): Step = before(pattern, Step.Done)

    private def before(pattern: RowPattern, next: Step): Step = pattern match {
      case Letter(name) =>
        new Step.Take(Move(names.indexOf(name), conditions.get(name), Skips.None, 0), next)
      case InOrder(parts) => parts.foldRight(next)(before)
      case OneOf(parts) => Step.Choose(parts.map(before(_, next)))
      case Repeated(part, least, most, eager) =>
        def choice(once: Step) =
          Step.Choose(if (eager) Seq(once, next) else Seq(next, once))
        val optional = most match {
          case None => new Step.Loop(before(part, _), next, eager)
          case Some(most) =>
            (least until most).foldLeft(next)((rest, _) => choice(before(part, rest)))
        }
        (0 until least).foldLeft(optional: Step)((rest, _) => before(part, rest))
    }
  }

  /** Reads the text of a pattern, as of `PATTERN (A B+ | C{2,3}?)` what is in the brackets. Throws
    * `KEYSTATE_DECLARATION`, which names the place, if it is none.
    */
  def parse(text: String): RowPattern = new Parser(text).all()

  private final class Parser(text: String) {
    private var at = 0

    def all(): RowPattern = {
      val pattern = alternatives()
      if (peek != End) refuse(s"'$peek' is not expected")
      pattern
    }

    private def refuse(problem: String) =
      throw KeystateErrors.declaration(s"PATTERN ($text): $problem at '${text.drop(at).take(20)}'.")

    private def peek: Char = {
      while (at < text.length && text(at).isWhitespace) at += 1
      if (at < text.length) text(at) else End
    }

    private def take(wanted: Char): Boolean = {
      val there = peek == wanted
      if (there) at += 1
      there
    }

    private def alternatives(): RowPattern = {
      val parts = Seq.newBuilder[RowPattern]
      parts += sequence()
      while (take('|')) parts += sequence()
      only(parts.result(), OneOf)
    }

    private def sequence(): RowPattern = {
      val parts = Seq.newBuilder[RowPattern]
      while (peek != End && peek != ')' && peek != '|') parts += repeated()
      only(parts.result(), InOrder)
    }

    private def only(parts: Seq[RowPattern], several: Seq[RowPattern] => RowPattern) =
      if (parts.size == 1) parts.head else several(parts)

    private def repeated(): RowPattern = {
      val part = primary()
      val times = peek match {
        case '*' => at += 1; Some(0 -> None)
        case '+' => at += 1; Some(1 -> None)
        case '?' => at += 1; Some(0 -> Some(1))
        case '{' => at += 1; Some(range())
        case _ => None
      }
      times.fold(part) { case (least, most) =>
        if (most.exists(_ < least)) refuse(s"{$least,${most.get}} is no range")
        Repeated(part, least, most, eager = !take('?'))
      }
    }

    private def range(): (Int, Option[Int]) = {
      val least = number()
      val range =
        if (!take(',')) least -> least else least.orElse(Some(0)) -> number()
      if (range._1.isEmpty) refuse("a number is missing")
      if (!take('}')) refuse("'}' is missing")
      range._1.get -> range._2
    }

    private def number(): Option[Int] = {
      peek: Unit
      val digits = text.drop(at).takeWhile(_.isDigit)
      at += digits.length
      if (digits.length > 5) refuse("a number is too large")
      if (digits.isEmpty) None else Some(digits.toInt)
    }

    private def primary(): RowPattern = peek match {
      case '(' =>
        at += 1
        val part = alternatives()
        if (!take(')')) refuse("')' is missing")
        part
      case '`' | '"' =>
        val quote = text(at)
        val end = text.indexOf(quote.toInt, at + 1)
        if (end < 0) refuse("a quote is not closed")
        val name = text.substring(at + 1, end)
        at = end + 1
        Letter(name)
      case first if first.isLetter || first == '_' =>
        val name = text.drop(at).takeWhile(c => c.isLetterOrDigit || c == '_')
        at += name.length
        if (name.equalsIgnoreCase("PERMUTE") && peek == '(') refuse("PERMUTE is not supported")
        Letter(name)
      case '^' | '$' => refuse("anchors are not supported: a stream has no first or last row")
      case '{' => refuse("exclusions are not supported")
      case other => refuse(if (other == End) "it ends too early" else s"'$other' is not expected")
    }
  }

  private final val End = '\u0000'
}
