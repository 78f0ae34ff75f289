package keystate.pattern

import scala.util.{Random, Try}

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.KeystateException

/** The driver of all runs, against a model that tries all ways: some hundred patterns, or with
  * `KEYSTATE_PATTERNS` so many.
  */
class AllRunsSuite extends AnyFunSuite {
  private val count = sys.env.get("KEYSTATE_PATTERNS").fold(4000)(_.toInt)

  private def run(automaton: Automaton, table: TruthTable, skip: AfterMatch) = {
    val runs = new AllRuns[table.History](automaton, skip, Nil)
    (0 until table.size).foreach(i => runs.row(table.row(i.toLong)))
    runs.advance(Long.MaxValue - 1)
    runs.take()
  }

  private def found(automaton: Automaton, table: TruthTable, skip: AfterMatch = AfterMatch.NoSkip) =
    run(automaton, table, skip).filter(_.isMatch).map { decided =>
      val rows = decided.run.history.reverse.asInstanceOf[List[(Int, Long)]]
      AllMatches.Found(
        rows.map { case (letter, row) => automaton.letters(letter) -> row.toInt },
        decided.time
      )
    }

  private def hasGroup(pattern: Pattern) = pattern.parts.exists(_.isInstanceOf[Part.Group])

  private def drawn(seed: Int): Option[(Pattern, Automaton, TruthTable)] = {
    val random = new RandomPatterns(new Random(seed))
    val pattern = random.pattern()
    Try(PatternCompiler.compile(pattern))
      .fold(
        { case _: KeystateException => None; case e => throw e },
        automaton => Some((pattern, automaton, random.table()))
      )
  }

  test("all matches are found, each once, when they are decided") {
    var matches = 0
    for {
      seed <- 0 until count
      (pattern, automaton, table) <- drawn(seed)
    } {
      val (ours, theirs) = (found(automaton, table), new AllMatches(pattern, table).found)
      def sorted(all: Seq[AllMatches.Found]) = {
        val told = all.map(f => (f.rows.map(_._2).mkString(","), f.toString)).sorted
        if (hasGroup(pattern)) told.distinct else told
      }
      assert(sorted(ours) == sorted(theirs), s"\nseed $seed\n$pattern\n$table\n${automaton.text}")
      matches += theirs.size
    }
    assert(matches > count / 4)
  }

  test("after a match others are skipped") {
    for {
      seed <- 0 until count
      (pattern, automaton, table) <- drawn(seed)
      if pattern.within.nonEmpty // else a match may wait for ever for one that began before it
      name = new Random(seed).shuffle(automaton.letters).head
      skip <- Seq(
        AfterMatch.ToNext,
        AfterMatch.PastLast,
        AfterMatch.To(name, last = false, needed = false),
        AfterMatch.To(name, last = true, needed = false)
      )
    } {
      def until(found: AllMatches.Found): Int = skip match {
        case AfterMatch.ToNext => found.rows.head._2 + 1
        case AfterMatch.PastLast => found.rows.last._2 + 1
        case _ =>
          val of = found.rows.filter(_._1 == name).map(_._2)
          if (of.isEmpty) -1 else if (skip.isLast) of.last else of.head
      }
      val ours = found(automaton, table, skip)
      val all = new AllMatches(pattern, table).found
      def clue = s"\nseed $seed $skip\n$pattern\n$table\n$ours\n${automaton.text}"
      ours.zipWithIndex.foreach { case (one, i) =>
        assert(all.contains(one), clue)
        assert(ours.take(i).forall(until(_) <= one.rows.head._2), clue)
      }
      all.filterNot(ours.contains).foreach { left =>
        val isSkipped = ours.exists { one =>
          val (first, other) = (left.rows.head._2, one.rows.head._2)
          until(one) > first && (other < first || other == first && one.decided <= left.decided)
        }
        assert(isSkipped, s"$left$clue")
      }
    }
  }
}
