package keystate.pattern

/** The compiled form of a pattern: points at which a run stands between two rows that it takes.
  *
  * @param letters
  *   the names of what rows are taken as, by their numbers
  * @param points
  *   a run begins at the first one
  * @param within
  *   how long a match may take: its last row is less than this after its first. None: any time
  */
final case class Automaton(
    letters: IndexedSeq[String],
    points: IndexedSeq[Point],
    within: Option[Long]
) {

  /** A text that is the same for patterns that do the same. */
  def text: String = {
    val rows = points.zipWithIndex.map { case (point, i) => s"$i: ${point.text(letters)}" }
    (letters.mkString("letters ", " ", "") +: rows :+ s"within ${within.getOrElse("any")}")
      .mkString("\n")
  }
}

/** A point of a pattern.
  *
  * @param moves
  *   what a run can do there, in order of preference
  * @param stops
  *   the conditions that end a run that stands there, if a row meets one of them
  * @param stopsAtOnce
  *   the same, for the first row after the one that was taken last
  * @param end
  *   whether a run is a match there
  * @param otherwise
  *   a condition, and the point from which a run goes on if the first row meets it
  */
final case class Point(
    moves: IndexedSeq[Move],
    stops: Seq[Int] = Nil,
    stopsAtOnce: Seq[Int] = Nil,
    end: End = End.None,
    otherwise: Option[(Int, Int)] = None
) {

  /** Whether the first row after the one that was taken last counts more than others. */
  val seesFirst: Boolean = stopsAtOnce.nonEmpty || end == End.UnlessNext || otherwise.nonEmpty

  /** A bit for each move, and one for an end that waits. */
  val open: Long = {
    val all = (1L << moves.size) - 1
    if (waits) all | Point.Waiting else all
  }

  def waits: Boolean = end.isInstanceOf[End.AfterTime]

  /** Whether a run can go on there. */
  def isOpen: Boolean = open != 0 || end == End.UnlessNext

  private[pattern] def text(letters: IndexedSeq[String]): String = {
    val told = moves.map(_.text(letters)) ++ stops.map(c => s"stop c$c") ++
      stopsAtOnce.map(c => s"stop at once c$c") ++ otherwise.map { case (c, to) => s"c$c to $to" }
    (told :+ end.toString).mkString("; ")
  }
}

object Point {

  /** The bit of an end that waits. */
  final val Waiting = 1L << 62

  /** How many moves a point can have. */
  final val MostMoves = 62
}

/** Takes a row as a letter, or waits for one.
  *
  * @param condition
  *   what a row has to meet; None: any row will do
  * @param skips
  *   which rows are skipped before it
  * @param takesUnless
  *   conditions of which a row that is taken meets none
  * @param skipsUnless
  *   the same, for a row that is skipped
  * @param within
  *   how long after the row that was taken before. None: any time
  */
final case class Move(
    letter: Int,
    condition: Option[Int],
    skips: Skips,
    to: Int,
    takesUnless: Seq[Int] = Nil,
    skipsUnless: Seq[Int] = Nil,
    within: Option[Long] = None
) {
  private[pattern] def text(letters: IndexedSeq[String]): String = {
    def unless(what: String, of: Seq[Int]) =
      if (of.isEmpty) "" else of.mkString(s" $what c", ",c", "")
    s"take ${letters(letter)}${condition.fold("")(c => s" c$c")}$skips" +
      unless("unless", takesUnless) + unless("skips unless", skipsUnless) +
      within.fold("")(w => s" within $w") + s" to $to"
  }
}

/** Which rows are skipped between two that are taken. */
sealed abstract class Skips(val name: String) extends Serializable {
  override def toString: String = if (this == Skips.None) "" else s" after $name"
}

object Skips {

  /** None: the very next row is taken. */
  case object None extends Skips("none")

  /** Those that don't meet the condition: the next one that does is taken. */
  case object ToNext extends Skips("others")

  /** Any. */
  case object Any extends Skips("any")

  val all: Seq[Skips] = Seq(None, ToNext, Any)
}

/** Whether a run is a match at a point. */
sealed trait End

object End {
  case object None extends End

  /** It is one. */
  case object Now extends End

  /** It is one if the next row does not stop it. */
  case object UnlessNext extends End

  /** It is one if nothing stops it until its time is over.
    *
    * @param within
    *   that time, from the row that was taken last; None: that of the pattern
    */
  final case class AfterTime(within: Option[Long]) extends End
}
