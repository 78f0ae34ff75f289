package keystate.pattern

import scala.collection.mutable

import keystate.errors.KeystateErrors

/** Compiles a pattern of parts, of which all runs are wanted. */
object PatternCompiler {

  /** Throws `KEYSTATE_DECLARATION`, which names the part, if the pattern makes no sense.
    *
    * @param skipTo
    *   the part to which one skips after a match, if there is one
    */
  def compile(pattern: Pattern, skipTo: Option[String] = None): Automaton = {
    new PatternChecks(pattern).check(skipTo)
    val names = PatternChecks.rows(pattern.parts).map(_.name).toIndexedSeq
    val steps = new PatternSteps(names.zipWithIndex.toMap)
    new Points(names, pattern.within, preferred = false).of(steps.of(pattern.parts))
  }
}

/** Makes steps of parts, from the last one to the first. */
private final class PatternSteps(letters: Map[String, Int]) {
  import Step._

  def of(parts: Seq[Part]): Step = before(parts, Done, None, Nil, None)

  /** The steps of parts, and then `next`.
    *
    * @param head
    *   which rows are skipped before the first part, if it is not as that says
    * @param until
    *   conditions that end the groups around these parts
    * @param after
    *   what comes after these parts, if it says that something is absent
    */
  private def before(
      parts: Seq[Part],
      next: Step,
      head: Option[Skips],
      until: Seq[Int],
      after: Option[Part.Absent]
  ): Step = {
    var step = next
    var following = after
    for ((part, i) <- parts.zipWithIndex.reverse) {
      val begins = if (i == 0) head else None
      step = part match {
        case absent: Part.Absent => Refuse(absent, Some(step))
        case rows: Part.Rows => of(rows, begins.getOrElse(rows.skips), step, until, following)
        case group: Part.Group => of(group, begins.getOrElse(group.skips), step, until, following)
      }
      following = Some(part).collect { case absent: Part.Absent => absent }
    }
    step
  }

  private def of(
      rows: Part.Rows,
      begins: Skips,
      next: Step,
      until: Seq[Int],
      following: Option[Part.Absent]
  ): Step = {
    val leaving =
      if (!rows.greedy || rows.times.most.contains(rows.times.least)) next
      else rows.condition.fold(next)(Leave(_, rows.until, next))

    def take(first: Boolean, rest: => Step): Step = {
      val of = if (first) until else until ++ rows.until
      val move = Move(
        letters(rows.name),
        rows.condition,
        if (first) begins else rows.times.skips,
        0,
        until ++ rows.until,
        of,
        rows.within.filter(_ => first)
      )
      new Take(move, rest)
    }
    repeated(rows.times, leaving, following)(take)
  }

  private def of(
      group: Part.Group,
      begins: Skips,
      next: Step,
      until: Seq[Int],
      following: Option[Part.Absent]
  ): Step =
    repeated(group.times, next, following) { (first, rest) =>
      val head = if (first) begins else group.times.skips
      before(group.parts, rest, Some(head), until ++ group.until, following)
    }

  /** What is absent after a loop is absent between its rows too. */
  private def repeated(times: Times, leaving: Step, following: Option[Part.Absent])(
      once: (Boolean, => Step) => Step
  ): Step = {
    def again(steps: Step*) =
      Choose(following.filterNot(_.atOnce).map(Refuse(_, None)).toSeq ++ steps)
    var last = times.most match {
      case None => new Loop(again => once(false, again), leaving, eager = true)
      case Some(most) =>
        (times.least until most).foldLeft(leaving)((rest, _) => again(once(false, rest), leaving))
    }
    for (_ <- 1 until times.least) {
      val rest = last
      last = again(once(false, rest))
    }
    val first = once(true, last)
    if (times.optional) Choose(Seq(first, leaving)) else first
  }
}

private[pattern] object PatternChecks {

  /** The parts that take rows, in their order. */
  def rows(parts: Seq[Part]): Seq[Part.Rows] = parts.flatMap {
    case rows: Part.Rows => Seq(rows)
    case group: Part.Group => rows(group.parts)
    case _: Part.Absent => Nil
  }
}

/** What a pattern must not say. */
private final class PatternChecks(pattern: Pattern) {
  private val seen = mutable.HashSet.empty[String]

  private def refuse(part: Part, problem: String) =
    throw KeystateErrors.pattern(part.name, problem)

  def check(skipTo: Option[String]): Unit = {
    if (pattern.parts.isEmpty) throw KeystateErrors.declaration("A pattern needs a part.")
    check(pattern.parts)
    if (pattern.within.exists(_ <= 0)) throw KeystateErrors.declaration("within must be positive.")
    skipTo.filterNot(PatternChecks.rows(pattern.parts).map(_.name).contains).foreach { name =>
      throw KeystateErrors.declaration(
        s"There is no part '$name' to skip to after a match: its parts are " +
          s"${PatternChecks.rows(pattern.parts).map(_.name).mkString(", ")}."
      )
    }
    lastAbsent(pattern.parts).filter(_.within.orElse(pattern.within).isEmpty).foreach {
      refuse(
        _,
        "is not_followed_by at the end of a pattern, which is never known without within: add " +
          "within, or another part."
      )
    }
  }

  /** What has to stay absent until the end, for all after it may be left out. */
  private def lastAbsent(parts: Seq[Part]): Option[Part.Absent] =
    parts.reverseIterator.dropWhile(mayBeLeftOut).nextOption().flatMap {
      case absent: Part.Absent => Some(absent)
      case group: Part.Group => lastAbsent(group.parts)
      case _: Part.Rows => None
    }

  private def mayBeLeftOut(part: Part): Boolean = part match {
    case rows: Part.Rows => rows.times.optional
    case group: Part.Group => group.times.optional || group.parts.forall(mayBeLeftOut)
    case absent: Part.Absent => absent.atOnce
  }

  private def check(parts: Seq[Part]): Unit = {
    for (part <- parts) part match {
      case rows: Part.Rows => name(rows); check(rows)
      case absent: Part.Absent => name(absent)
      case group: Part.Group =>
        if (group.parts.isEmpty) throw KeystateErrors.declaration("A group needs a part.")
        check(group, group.times)
        if (group.until.nonEmpty && group.times.most.nonEmpty) refuse(group, UntilWithoutLoop)
        check(group.parts)
    }
    parts.head match {
      case absent: Part.Absent => refuse(absent, "is absent, and so can't be the first part.")
      case _ =>
    }
    for ((before, part) <- parts.zip(parts.drop(1))) {
      if (part.isInstanceOf[Part.Absent] && isOptional(before))
        refuse(
          part,
          s"is absent after '${before.name}', which is optional: write two patterns, one with and " +
            "one without it."
        )
      if (isOptional(part) && isGreedy(before))
        refuse(part, s"is optional after '${before.name}', which is greedy.")
    }
    for (part <- parts; within <- withinOf(part)) {
      if (within <= 0) refuse(part, "has a within that is not positive.")
      if (pattern.within.exists(_ < within))
        refuse(part, "may come later after the part before it than the whole pattern takes.")
    }
  }

  private def name(part: Part): Unit = {
    if (part.name.isEmpty) throw KeystateErrors.declaration("A part of a pattern needs a name.")
    if (!seen.add(part.name)) refuse(part, "is there twice: names of parts are unique.")
  }

  private def check(rows: Part.Rows): Unit = {
    check(rows, rows.times)
    if (rows.greedy && rows.times.skips == Skips.Any)
      refuse(rows, "is greedy and allows combinations: it can't do both.")
    if (rows.until.nonEmpty && rows.times.most.nonEmpty) refuse(rows, UntilWithoutLoop)
  }

  private def check(part: Part, times: Times): Unit = {
    if (times.least < 1) refuse(part, "has to come at least once: make it optional instead.")
    if (times.most.exists(_ < times.least))
      refuse(part, s"comes at least ${times.least} times and at most ${times.most.get}.")
  }

  private final val UntilWithoutLoop =
    "has until, but no loop: until ends one_or_more and times_or_more."

  private def isOptional(part: Part) = part match {
    case rows: Part.Rows => rows.times.optional
    case group: Part.Group => group.times.optional
    case _: Part.Absent => false
  }

  private def isGreedy(part: Part) = part match {
    case rows: Part.Rows => rows.greedy
    case _ => false
  }

  private def withinOf(part: Part): Option[Long] = part match {
    case rows: Part.Rows => rows.within
    case absent: Part.Absent => absent.within
    case _: Part.Group => None
  }
}
