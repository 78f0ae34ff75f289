package keystate.simulation

import scala.annotation.tailrec

/** Finds fewer events of a seed with which it still fails as it does with all of them: leaves out
  * ever smaller parts of them (A. Zeller, R. Hildebrandt, "Simplifying and Isolating
  * Failure-Inducing Input", IEEE TSE 2002). What comes later changes with each event that is left
  * out, so what is found is small, and not the smallest.
  *
  * @param failure
  *   with all of its events
  * @param mostRuns
  *   how many runs to spend
  * @param again
  *   runs the seed with some of its events
  */
final class Shrinking(failure: Seeds.Failure, mostRuns: Int)(
    again: Set[Int] => Option[Seeds.Failure]
) {
  private var runs = 0

  /** The shortest failure found. */
  def run(): Seeds.Failure = {
    val all = (0 until failure.events).toVector
    remove(all, parts = 2, failure.copy(only = Some(all.toSet)))
  }

  @tailrec private def remove(
      events: Vector[Int],
      parts: Int,
      shortest: Seeds.Failure
  ): Seeds.Failure =
    if (events.isEmpty || runs >= mostRuns) shortest
    else {
      val size = Math.max(1, events.size / parts)
      // Those at the end first: they change the least of what happens.
      val fewer = events.grouped(size).toVector.reverseIterator.map(events.diff(_)).flatMap(fails)
      fewer.nextOption() match {
        case Some(shorter) =>
          // Events that no longer come are left out with it.
          val left = shorter.only.get.filter(_ < shorter.events).toVector.sorted
          remove(left, Math.max(2, parts - 1), shorter)
        case None if size == 1 => shortest
        case None => remove(events, Math.min(parts * 2, events.size), shortest)
      }
    }

  private val expected = kindOf(failure)

  private def fails(events: Vector[Int]): Option[Seeds.Failure] =
    if (runs >= mostRuns) None
    else {
      runs += 1
      again(events.toSet).filter(kindOf(_) == expected)
    }

  /** What went wrong, without numbers and names of files. */
  private def kindOf(one: Seeds.Failure) =
    one.cause.toString.split(' ').filterNot(_.exists(_.isDigit)).toSeq
}
