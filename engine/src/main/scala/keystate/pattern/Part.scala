package keystate.pattern

/** A part of a pattern, as it is declared. */
sealed trait Part {
  def name: String
}

object Part {

  /** Rows that meet a condition.
    *
    * @param condition
    *   the number of the condition; None: any row
    * @param skips
    *   which rows are skipped before the first of them
    * @param greedy
    *   whether no row that could be one of them is left to what follows
    * @param until
    *   the condition of a row that ends the loop
    * @param within
    *   how long after the row that was taken before. None: any time
    */
  final case class Rows(
      name: String,
      condition: Option[Int],
      skips: Skips,
      times: Times = Times.One,
      greedy: Boolean = false,
      until: Option[Int] = None,
      within: Option[Long] = None
  ) extends Part

  /** That there is no row that meets a condition.
    *
    * @param atOnce
    *   whether only the next row counts
    * @param within
    *   at the end of a pattern: for how long after the row that was taken last
    */
  final case class Absent(
      name: String,
      condition: Int,
      atOnce: Boolean,
      within: Option[Long] = None
  ) extends Part

  /** Several parts that are repeated as a whole. */
  final case class Group(
      parts: Seq[Part],
      skips: Skips,
      times: Times = Times.One,
      until: Option[Int] = None
  ) extends Part {
    override def name: String = parts.map(_.name).mkString("group of '", "', '", "'")
  }
}

/** How many times a part comes.
  *
  * @param most
  *   None: any number of times
  * @param optional
  *   whether it may also be left out
  * @param skips
  *   which rows are skipped between two of them
  */
final case class Times(
    least: Int,
    most: Option[Int],
    optional: Boolean = false,
    skips: Skips = Skips.ToNext
)

object Times {
  val One: Times = Times(1, Some(1))
}

/** A pattern as it is declared: its parts in their order.
  *
  * @param within
  *   how long a match may take. None: any time
  */
final case class Pattern(parts: Seq[Part], within: Option[Long])
