package keystate.pattern

import scala.collection.mutable

import keystate.errors.KeystateErrors

/** What a pattern is made of before its points are known: steps, of which only [[Step.Take]] needs a
  * row.
  */
private[pattern] sealed trait Step

private[pattern] object Step {

  /** Takes a row.
    *
    * @param move
    *   the move, but for where it leads to
    */
  final class Take(val move: Move, rest: => Step) extends Step {
    lazy val next: Step = rest
  }

  /** Goes on with one of these, the first that can. */
  final case class Choose(steps: Seq[Step]) extends Step

  /** Goes round, or leaves. A round without a row ends it.
    *
    * @param begun
    *   makes the round of what follows it
    */
  final class Loop(begun: Step => Step, val leave: Step, val eager: Boolean) extends Step {
    lazy val round: Step = begun(this)
  }

  /** A row that meets a condition ends the run. None: it is told again by what leads here. */
  final case class Refuse(absent: Part.Absent, next: Option[Step]) extends Step

  /** Leaves no row to what follows that meets a condition, unless one has met `until` before. */
  final case class Leave(condition: Int, until: Option[Int], next: Step) extends Step

  case object Done extends Step
}

/** Makes the points of steps.
  *
  * @param preferred
  *   whether a match is preferred to what comes after it in the order of steps; else all count
  */
private[pattern] final class Points(
    letters: IndexedSeq[String],
    within: Option[Long],
    preferred: Boolean
) {
  import Step._

  private val points = mutable.ArrayBuffer.empty[Point]
  private val numbers = mutable.HashMap.empty[Take, Int]
  private val pending = mutable.Queue.empty[(Int, Step, Set[Int])]

  def of(first: Step): Automaton = {
    add(first, Set.empty)
    while (pending.nonEmpty) {
      val (number, step, freed) = pending.dequeue()
      points(number) = new Closure(freed).of(step)
    }
    Automaton(letters, points.toIndexedSeq, within)
  }

  private def add(step: Step, freed: Set[Int]): Int = {
    if (points.size == Points.Most)
      throw KeystateErrors.declaration(
        s"The pattern has more than ${Points.Most} points: repeat fewer times."
      )
    points += Point(IndexedSeq.empty)
    pending.enqueue((points.size - 1, step, freed))
    points.size - 1
  }

  /** Follows the steps that need no row.
    *
    * @param freed
    *   conditions that ended a loop, so that it leaves rows to what follows
    */
  private final class Closure(freed: Set[Int]) {
    private val moves = mutable.LinkedHashSet.empty[Move]
    private val stops = mutable.LinkedHashSet.empty[Int]
    private val stopsAtOnce = mutable.LinkedHashSet.empty[Int]
    private var end: End = End.None
    private var until = Option.empty[Int]

    def of(step: Step): Point = {
      follow(step, Way(Set.empty, Nil, None))
      if (moves.size > Point.MostMoves)
        throw KeystateErrors.declaration(
          s"The pattern can go on in more than ${Point.MostMoves} ways at one point: make it simpler."
        )
      val otherwise = until.map(condition => condition -> add(step, freed + condition))
      Point(moves.toIndexedSeq, stops.toSeq, stopsAtOnce.toSeq, end, otherwise)
    }

    private def follow(step: Step, way: Way): Unit = if (!preferred || end != End.Now) step match {
      case take: Take =>
        val move = take.move
        val to = numbers.getOrElseUpdate(take, add(take.next, Set.empty))
        moves += move.copy(
          to = to,
          takesUnless = (move.takesUnless ++ way.unless).distinct,
          skipsUnless = (move.skipsUnless ++ way.unless).distinct
        )
      case Choose(steps) => steps.foreach(follow(_, way))
      case loop: Loop if way.loops(loop) => follow(loop.leave, way)
      case loop: Loop =>
        def round(): Unit = follow(loop.round, way.copy(loops = way.loops + loop))
        if (loop.eager) round()
        follow(loop.leave, way)
        if (!loop.eager) round()
      case Refuse(absent, next) =>
        (if (absent.atOnce) stopsAtOnce else stops) += absent.condition
        next.foreach(follow(_, way.copy(absent = Some(absent))))
      case Leave(condition, ends, next) =>
        if (ends.exists(freed)) follow(next, way)
        else {
          until = until.orElse(ends)
          follow(next, way.copy(unless = way.unless :+ condition))
        }
      case Done =>
        end = way.absent match {
          case None => End.Now
          case _ if end != End.None => end // reached in another way before
          case Some(absent) if absent.atOnce => End.UnlessNext
          case Some(absent) => End.AfterTime(absent.within)
        }
    }
  }
}

/** How a step was reached without a row.
  *
  * @param loops
  *   the loops whose round it is in
  * @param unless
  *   conditions that rows don't meet
  * @param absent
  *   what was refused last
  */
private final case class Way(loops: Set[Step.Loop], unless: Seq[Int], absent: Option[Part.Absent])

private[pattern] object Points {

  /** How many points a pattern may have. */
  final val Most = 10000
}
