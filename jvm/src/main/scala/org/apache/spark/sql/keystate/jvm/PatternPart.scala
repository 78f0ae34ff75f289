package org.apache.spark.sql.keystate.jvm

import java.time.Duration

import org.apache.spark.sql.Column

import keystate.errors.KeystateErrors
import keystate.pattern.{Part, Skips, Times}

/** A part of a pattern, as it is declared.
  *
  * @param absent
  *   whether its elements must not come: at once, or until the next part
  * @param quantified
  *   whether it was said how many times it comes
  */
final case class PatternPart(
    name: String,
    skips: Skips,
    absent: Option[Boolean] = None,
    group: Vector[PatternPart] = Vector.empty,
    where: Option[Column] = None,
    until: Option[Column] = None,
    times: Times = Times.One,
    quantified: Boolean = false,
    greedy: Boolean = false,
    within: Option[Duration] = None
)

object PatternPart {

  /** The parts, with their conditions by their numbers. */
  def numbered(parts: Seq[PatternPart]): (Seq[Part], Seq[Column]) = {
    val conditions = Seq.newBuilder[Column]
    var count = 0
    def number(condition: Column): Int = {
      conditions += condition
      count += 1
      count - 1
    }
    def part(of: PatternPart): Part = {
      val within = of.within.map(_.toNanos / 1000)
      def until = of.until.map(number)
      if (of.group.nonEmpty) Part.Group(of.group.map(part), of.skips, of.times, until)
      else
        of.absent match {
          case Some(atOnce) =>
            val condition = of.where.getOrElse {
              throw KeystateErrors.pattern(of.name, "is absent, but has no condition.")
            }
            Part.Absent(of.name, number(condition), atOnce, within)
          case None =>
            val where = of.where.map(number)
            Part.Rows(of.name, where, of.skips, of.times, of.greedy, until, within)
        }
    }
    (parts.map(part), conditions.result())
  }
}
