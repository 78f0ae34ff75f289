package keystate.simulation

import scala.util.Random

/** What a seed decides. Where it lets something happen that need not (a fault, a death, another
  * actor goes on) that is an event; a run can be repeated with some of its events only.
  *
  * @param only
  *   the numbers of the events that happen; None lets all happen
  */
final class Choices(seed: Long, only: Option[Set[Int]] = None) extends Random(seed) {
  private var count = 0

  /** How many events there were, those that were left out too. */
  def events: Int = count

  /** Whether something that is so likely happens. */
  def happens(likelihood: Double): Boolean = isEvent(nextDouble() < likelihood)

  def isEvent(happens: Boolean): Boolean = happens && {
    count += 1
    only.forall(_(count - 1))
  }
}
