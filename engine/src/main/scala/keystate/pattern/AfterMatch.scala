package keystate.pattern

import keystate.errors.KeystateErrors

/** Where one goes on after a match.
  *
  * @param skips
  *   whether any other match is left out
  * @param letter
  *   the letter to whose row one skips
  */
sealed abstract class AfterMatch(val skips: Boolean, val letter: Option[String])
    extends Serializable {

  /** Whether one skips to the last row of the letter; else to the first one. */
  def isLast: Boolean = false

  /** What began before this row is left out, after a match. None: nothing. */
  def until(found: Run[_]): Option[Long]
}

object AfterMatch {

  /** All matches count. */
  case object NoSkip extends AfterMatch(false, None) {
    override def until(found: Run[_]): Option[Long] = None
  }

  /** Others that begin with the same row are left out. */
  case object ToNext extends AfterMatch(true, None) {
    override def until(found: Run[_]): Option[Long] = Some(found.first + 1)
  }

  /** Others that begin before its end are left out. */
  case object PastLast extends AfterMatch(true, None) {
    override def until(found: Run[_]): Option[Long] = Some(found.last + 1)
  }

  /** Others that begin before a row of a letter are left out.
    *
    * @param needed
    *   whether it is an error if there is no such row, or it is the first one of the match
    */
  final case class To(name: String, last: Boolean, needed: Boolean)
      extends AfterMatch(true, Some(name)) {
    override def isLast: Boolean = last
    override def until(found: Run[_]): Option[Long] =
      if (needed && (found.skipTo < 0 || found.skipTo == found.first))
        throw KeystateErrors.cannotSkip(name, found.skipTo < 0)
      else Some(found.skipTo).filter(_ >= 0)
  }
}
