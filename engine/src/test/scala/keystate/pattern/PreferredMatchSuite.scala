package keystate.pattern

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.pattern.PreferredMatch.{Matched, Unmatched}

/** The driver of the preferred match, against a model that goes back: some thousand patterns, or with
  * `KEYSTATE_PATTERNS` so many.
  */
class PreferredMatchSuite extends AnyFunSuite {
  private val count = sys.env.get("KEYSTATE_PATTERNS").fold(10000)(_.toInt)
  private type History = List[(String, Int)]

  /** What is decided from each row on: the rows of a match, or none. */
  private final class Model(
      pattern: RowPattern,
      table: TruthTable,
      within: Option[Long],
      holds: (String, Int, History) => Boolean
  ) {
    import RowPattern._

    private def from(part: RowPattern, at: Int, first: Int, history: History)(
        next: (Int, History) => Option[History]
    ): Option[History] = part match {
      case Letter(name) =>
        val inTime = at < table.size && within.forall(table.times(at) - table.times(first) < _)
        if (inTime && holds(name, at, history)) next(at + 1, (name, at) :: history) else None
      case InOrder(Nil) => next(at, history)
      case InOrder(parts) =>
        from(parts.head, at, first, history)(from(InOrder(parts.tail), _, first, _)(next))
      case OneOf(parts) =>
        parts.iterator.flatMap(from(_, at, first, history)(next)).nextOption()
      case Repeated(part, least, most, eager) =>
        def once(least: Int, most: Option[Int]) = from(part, at, first, history) { (to, taken) =>
          if (to == at && least == 0 && most.isEmpty) next(to, taken)
          else from(Repeated(part, least, most, eager), to, first, taken)(next)
        }
        if (least > 0) once(least - 1, most.map(_ - 1))
        else if (most.contains(0)) next(at, history)
        else if (eager) once(0, most.map(_ - 1)).orElse(next(at, history))
        else next(at, history).orElse(once(0, most.map(_ - 1)))
    }

    def all(skip: AfterMatch): Seq[(Int, Option[History])] = {
      def go(at: Int): List[(Int, Option[History])] =
        if (at >= table.size) Nil
        else {
          val found = from(pattern, at, at, Nil)((_, history) => Some(history.reverse))
          val next = found match {
            case Some(rows) if rows.nonEmpty =>
              skip match {
                case AfterMatch.PastLast => rows.last._2 + 1
                case AfterMatch.To(name, last, _) =>
                  val of = rows.filter(_._1 == name).map(_._2)
                  val to = if (of.isEmpty) -1 else if (last) of.last else of.head
                  if (to <= at) return List(at -> None)
                  to
                case _ => at + 1
              }
            case _ => at + 1
          }
          (at -> found) :: go(next)
        }
      go(0)
    }
  }

  private def check(seed: Int, looksBack: Boolean): Int = {
    val chance = new Random(seed)
    val random = new RandomPatterns(chance)
    val pattern = random.rowPattern()
    val table = random.table()
    val within = Option.when(chance.nextInt(3) == 0)(1L + chance.nextInt(6))
    val conditions = Map("A" -> 0, "B" -> 1, "C" -> 2)
    val automaton = RowPattern.compile(pattern, conditions, within)
    val odd = if (looksBack) chance.nextInt(3) else -1
    // One condition wants an odd number of rows that were taken as A, with the row at hand.
    def fits(condition: Int, taken: Seq[String]) =
      condition != odd || taken.count(_ == "A") % 2 == 1
    def holds(name: String, row: Int, history: History) =
      conditions.get(name).forall { condition =>
        table.holds(row)(condition) && fits(condition, name +: history.map(_._1))
      }
    val skip = chance.nextInt(3) match {
      case 0 => AfterMatch.PastLast
      case 1 => AfterMatch.ToNext
      case _ => AfterMatch.PastLast
    }
    val expected = new Model(pattern, table, within, holds).all(skip)
    val driver = new PreferredMatch[table.History](automaton, skip, Nil, merges = !looksBack)
    def row(i: Long) = table.row(
      i,
      (condition, history, letter) =>
        fits(condition, automaton.letters(letter) +: history.map(h => automaton.letters(h._1)))
    )
    // In pieces, as micro-batches come.
    var end = 0
    val results = Seq.newBuilder[PreferredMatch.Result[table.History]]
    while (end < table.size) {
      end = math.min(table.size, end + chance.nextInt(3))
      val time = if (end == 0) Long.MinValue else table.times(end - 1)
      results ++= driver.go(end.toLong, row, time, ended = false)
    }
    results ++= driver.go(table.size.toLong, row, Long.MaxValue, ended = true)
    val ours = results.result().map {
      case Matched(history, first, _, _) =>
        val rows = history.asInstanceOf[List[(Int, Long)]].reverse
        first.toInt -> Some(rows.map { case (letter, at) => automaton.letters(letter) -> at.toInt })
      case Unmatched(at, _, _) => at.toInt -> None
    }
    assert(ours == expected, s"\nseed $seed\n$pattern\n$table\n$within $skip\n${automaton.text}")
    expected.count(_._2.exists(_.nonEmpty))
  }

  test("the preferred matches are found") {
    assert((0 until count).map(check(_, looksBack = false)).sum > count / 2)
  }

  test("the preferred matches are found, of conditions that look at earlier rows") {
    assert((0 until count).map(check(_, looksBack = true)).sum > count / 2)
  }
}
