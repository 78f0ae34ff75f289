package keystate.pattern

/** All matches of a pattern of parts, by trying all ways to take rows: a model of what the driver
  * finds, without points. A match is what is said between each two rows that are taken after one
  * another. Absent parts come after parts that are no groups.
  */
final class AllMatches(pattern: Pattern, table: TruthTable) {
  import AllMatches._

  /** Rows that are taken, and what is to be seen to between them. */
  private def words(parts: Seq[Part], head: Option[Skips], until: Seq[Int], most: Int): Seq[Word] =
    if (parts.isEmpty) Seq(Nil)
    else {
      val absents = parts.tail.takeWhile(_.isInstanceOf[Part.Absent])
      val between = absents.collect { case absent: Part.Absent => absent }
      val firsts: Seq[Word] = parts.head match {
        case absent: Part.Absent => Seq(List(Refused(absent)))
        case rows: Part.Rows =>
          val leave = Some(rows).filter(r => r.greedy && !r.times.most.contains(r.times.least))
          repeated(rows.times, most) { i =>
            val skips = if (i == 0) head.getOrElse(rows.skips) else rows.times.skips
            val skipsUnless = until ++ rows.until.filter(_ => i > 0)
            val own = until ++ rows.until
            val within = rows.within.filter(_ => i == 0)
            // What is absent after a loop is absent within it; next to it, once it may end.
            val refused = between
              .filter(absent => i > 0 && (!absent.atOnce || i >= rows.times.least))
              .map(Refused)
            Seq(refused.toList :+ Taken(rows, skips, own, skipsUnless, within))
          }.map(_ ++ leave.map(Left(_)))
        case group: Part.Group =>
          repeated(group.times, most) { i =>
            val skips = if (i == 0) head.getOrElse(group.skips) else group.times.skips
            words(group.parts, Some(skips), until ++ group.until, most)
          }
      }
      for {
        first <- firsts
        left = most - first.count(_.isInstanceOf[Taken])
        if left >= 0
        rest <- words(parts.tail, None, until, left)
      } yield first ++ rest
    }

  private def repeated(times: Times, most: Int)(once: Int => Seq[Word]): Seq[Word] = {
    def go(i: Int, room: Int): Seq[Word] = {
      val stop = if (i >= times.least || i == 0 && times.optional) Seq(Nil) else Nil
      val more =
        if (times.most.exists(_ <= i) || room == 0 && i >= times.least) Nil
        else
          for {
            first <- once(i)
            taken = first.count(_.isInstanceOf[Taken])
            if (taken > 0 || i < times.least) && taken <= room
            rest <- go(i + 1, room - taken)
          } yield first ++ rest
      stop ++ more
    }
    go(0, most)
  }

  /** The matches: the parts and the rows that are taken, and when that is decided. */
  def found: Seq[Found] =
    for {
      word <- words(pattern.parts, None, Nil, table.size).distinct
      if word.exists(_.isInstanceOf[Taken])
      found <- matches(word)
    } yield found

  private def holds(condition: Int, row: Int) = table.holds(row)(condition)
  private def inTime(first: Int, row: Int) =
    pattern.within.forall(table.times(row) - table.times(first) < _)

  private def matches(word: Word): Seq[Found] = {
    def go(rest: Word, taken: List[(String, Int)]): Seq[Found] = {
      val between = rest.takeWhile(!_.isInstanceOf[Taken])
      rest.dropWhile(!_.isInstanceOf[Taken]) match {
        case (next: Taken) :: more =>
          for {
            row <- taken.headOption.fold(0)(_._2 + 1) until table.size
            if taken.isEmpty || inTime(taken.last._2, row)
            if fits(between, next, taken.headOption.map(_._2), row)
            found <- go(more, (next.rows.name, row) :: taken)
          } yield found
        case _ => ended(between, taken).map(Found(taken.reverse, _)).toSeq
      }
    }
    go(word, Nil)
  }

  private def fits(between: Word, next: Taken, before: Option[Int], row: Int): Boolean = {
    val isIt = next.rows.condition.forall(holds(_, row)) && !next.unless.exists(holds(_, row))
    val skipped = before.fold(row until row)(_ + 1 until row)
    val seen = before.fold(row to row)(_ + 1 to row)
    isIt && skipped.forall { other =>
      !next.skipsUnless.exists(holds(_, other)) && (next.skips match {
        case Skips.None => false
        case Skips.ToNext => !next.rows.condition.forall(holds(_, other))
        case Skips.Any => true
      })
    } && before.forall(b => next.within.forall(table.times(row) - table.times(b) < _)) &&
    between.forall {
      case Refused(absent) if before.isEmpty => true
      case Refused(absent) if absent.atOnce => !holds(absent.condition, seen.head)
      case Refused(absent) => !seen.exists(holds(absent.condition, _))
      case Left(greedy) =>
        greedy.condition.forall { condition =>
          before.nonEmpty && greedy.until.exists(holds(_, seen.head)) ||
          !seen.exists(holds(condition, _))
        }
      case _: Taken => true
    }
  }

  /** When rows are known to be a match. */
  private def ended(rest: Word, taken: List[(String, Int)]): Option[Long] = {
    val (first, last) = (taken.last._2, taken.head._2)
    val refused = rest.collect { case Refused(absent) => absent }
    def whole = pattern.within.map(table.times(first) + _)
    refused.lastOption match {
      case None => Some(table.times(last))
      case Some(absent) =>
        val own = if (absent.atOnce) None else absent.within.map(table.times(last) + _)
        val limit = (own ++ whole).minOption
        val seen = (last + 1 until table.size).filter(i => limit.forall(table.times(i) < _))
        def stopped(i: Int) = refused.exists { absent =>
          holds(absent.condition, i) && (!absent.atOnce || i == last + 1)
        }
        if (absent.atOnce)
          seen.headOption.filter(_ == last + 1).filterNot(stopped).map(table.times(_))
        else limit.filterNot(_ => seen.exists(stopped))
    }
  }
}

object AllMatches {
  final case class Found(rows: List[(String, Int)], decided: Long)

  private type Word = List[Token]
  private sealed trait Token
  private final case class Taken(
      rows: Part.Rows,
      skips: Skips,
      unless: Seq[Int],
      skipsUnless: Seq[Int],
      within: Option[Long]
  ) extends Token
  private final case class Refused(absent: Part.Absent) extends Token
  private final case class Left(greedy: Part.Rows) extends Token
}
