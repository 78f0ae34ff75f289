package keystate.pattern

import scala.collection.mutable

import keystate.errors.KeystateErrors

/** A run of a pattern of which the preferred match is wanted. */
final case class Thread[H](id: Long, point: Int, skipTo: Long, history: H)

/** An attempt to match from a row on.
  *
  * @param start
  *   the number of that row, and `began` its time
  * @param next
  *   the number of the next row that it has not seen
  * @param threads
  *   the runs that are alive, in order of preference
  * @param best
  *   the preferred one of those that have ended, with the number of the row after its last one
  */
final case class Attempt[H](
    start: Long,
    began: Long,
    next: Long,
    threads: Seq[Thread[H]],
    best: Option[(Thread[H], Long)]
)

/** Finds, among the rows of one key, which come in order, the preferred match from each row on that
  * is not skipped.
  *
  * @param merges
  *   whether of two runs at one point the preferred one counts: no condition looks at earlier rows
  */
final class PreferredMatch[H](
    automaton: Automaton,
    skip: AfterMatch,
    none: H,
    merges: Boolean,
    mostRuns: Int = Int.MaxValue
) {
  import PreferredMatch._

  private val points = automaton.points
  private val skipLetter = skip.letter.fold(-1)(automaton.letters.indexOf)

  /** The attempt that is under way. */
  var attempt: Option[Attempt[H]] = None

  /** The number of the row that the next attempt begins with. */
  var position: Long = 0

  /** The rows before this one are in a match. */
  var matchedTo: Long = 0

  /** The number of the next run. */
  var nextId: Long = 0

  /** Goes on as far as there are rows.
    *
    * @param end
    *   the number after that of the last row
    * @param rows
    *   the rows from `needed` on
    * @param time
    *   no row before this time comes any more
    * @param ended
    *   whether no row comes at all
    */
  def go(end: Long, rows: Long => RowAtHand[H], time: Long, ended: Boolean): Seq[Result[H]] = {
    val results = mutable.ArrayBuffer.empty[Result[H]]
    var more = true
    while (more) {
      var current = attempt.getOrElse {
        if (position < end) begin(rows(position)) else null
      }
      if (current == null) more = false
      else {
        val limit = automaton.within.fold(Long.MaxValue)(current.began + _)
        var decidedAt = current.began
        while (current.threads.nonEmpty && current.next < end) {
          val row = rows(current.next)
          decidedAt = row.time
          current = if (row.time >= limit) current.copy(threads = Nil) else step(current, row)
        }
        if (current.threads.nonEmpty && (ended || time >= limit)) {
          decidedAt = limit
          current = current.copy(threads = Nil)
        }
        if (current.threads.nonEmpty) {
          attempt = Some(current)
          more = false
        } else {
          attempt = None
          results += decide(current, decidedAt)
        }
      }
    }
    results.toSeq
  }

  /** When something is decided without a row. Long.MaxValue: never. */
  def deadline: Long =
    attempt.flatMap(now => automaton.within.map(now.began + _)).getOrElse(Long.MaxValue)

  /** The number of the first row that is needed again. */
  def needed: Long = attempt.fold(position)(_.start)

  private def newId(): Long = {
    nextId += 1
    nextId - 1
  }

  private def begin(row: RowAtHand[H]): Attempt[H] = {
    val first = Thread(newId(), 0, -1L, none)
    val isEmpty = points.head.end == End.Now
    Attempt(row.number, row.time, row.number, Seq(first), Option.when(isEmpty)(first -> row.number))
  }

  private def step(now: Attempt[H], row: RowAtHand[H]): Attempt[H] = {
    val threads = mutable.ArrayBuffer.empty[Thread[H]]
    val there = mutable.HashSet.empty[Int]
    var best = now.best
    var found = false
    val before = now.threads.iterator
    while (!found && before.hasNext) {
      val thread = before.next()
      val moves = points(thread.point).moves.iterator
      while (!found && moves.hasNext) {
        val move = moves.next()
        val isNew = !merges || !there(move.to)
        if (isNew && move.condition.forall(row.holds(_, thread.history, move.letter))) {
          there += move.to
          val to = points(move.to)
          val marks = move.letter == skipLetter && (thread.skipTo < 0 || skip.isLast)
          val next = Thread(
            newId(),
            move.to,
            if (marks) row.number else thread.skipTo,
            row.taken(thread.history, move.letter)
          )
          if (to.moves.nonEmpty) threads += next
          if (to.end == End.Now) {
            best = Some(next -> (row.number + 1))
            found = true
          }
        }
      }
    }
    if (threads.size > mostRuns) throw KeystateErrors.tooManyRuns(threads.size, mostRuns)
    now.copy(next = row.number + 1, threads = threads.toSeq, best = best)
  }

  private def decide(now: Attempt[H], time: Long): Result[H] = {
    position = now.start + 1
    now.best match {
      case None => Unmatched(now.start, time, now.start >= matchedTo)
      case Some((_, end)) if end == now.start => Matched(none, now.start, end, time)
      case Some((thread, end)) =>
        matchedTo = math.max(matchedTo, end)
        position = skip match {
          case AfterMatch.PastLast => end
          case AfterMatch.To(name, _, _) if thread.skipTo < 0 || thread.skipTo == now.start =>
            throw KeystateErrors.cannotSkip(name, thread.skipTo < 0)
          case AfterMatch.To(_, _, _) => thread.skipTo
          case _ => now.start + 1
        }
        Matched(thread.history, now.start, end, time)
    }
  }
}

object PreferredMatch {

  /** What was decided of the attempt from a row on.
    *
    * @param time
    *   when; Long.MaxValue: at the end of the input
    */
  sealed trait Result[H] {
    def time: Long
  }

  /** A match of the rows from `first` to `end`, without the latter: of none, if both are the same. */
  final case class Matched[H](history: H, first: Long, end: Long, time: Long) extends Result[H]

  /** There is none.
    *
    * @param isAlone
    *   whether the row is in no match before it either
    */
  final case class Unmatched[H](row: Long, time: Long, isAlone: Boolean) extends Result[H]
}
