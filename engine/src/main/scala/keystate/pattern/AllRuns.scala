package keystate.pattern

import scala.collection.mutable

import keystate.errors.KeystateErrors

/** The row at hand.
  *
  * @tparam H
  *   what is known of the rows that a run has taken
  */
trait RowAtHand[H] {

  /** Rows of a key are numbered as they come. */
  def number: Long
  def time: Long

  /** Whether the row meets a condition.
    *
    * @param history
    *   what the run has taken before
    * @param letter
    *   the letter that the row would be taken as; -1 if it is not to be taken
    */
  def holds(condition: Int, history: H, letter: Int): Boolean

  /** The history with this row. */
  def taken(history: H, letter: Int): H
}

/** A partial match, or a match that waits for those that began before it.
  *
  * @param point
  *   where it stands
  * @param open
  *   a bit for each move of that point that it still can do
  * @param isFirst
  *   whether the next row is the first one there
  * @param first
  *   the number of its first row, and `began` that row's time
  * @param last
  *   the number of its last row, and `took` that row's time
  * @param skipTo
  *   the number of the row to which one skips after it; -1 if it has none
  * @param done
  *   when it was decided, if it is a match
  */
final case class Run[H](
    id: Long,
    point: Int,
    open: Long,
    isFirst: Boolean,
    first: Long,
    began: Long,
    last: Long,
    took: Long,
    skipTo: Long,
    history: H,
    done: Option[Long]
)

/** Something that was decided: a match, or a partial one whose time is over.
  *
  * @param time
  *   when
  */
final case class Decided[H](run: Run[H], time: Long, isMatch: Boolean)

/** Finds all runs of a pattern among the rows of one key, which come in order.
  *
  * @param mostRuns
  *   how many partial matches there may be
  * @param drops
  *   whether those that began first are dropped if there are more; else that is an error
  */
final class AllRuns[H](
    automaton: Automaton,
    skip: AfterMatch,
    none: H,
    mostRuns: Int = Int.MaxValue,
    drops: Boolean = false
) {
  private val points = automaton.points
  private val skipLetter = skip.letter.fold(-1)(automaton.letters.indexOf)
  private val start = points.head

  /** The partial matches and the matches that wait, as they began to be. */
  var runs: mutable.ArrayBuffer[Run[H]] = mutable.ArrayBuffer.empty

  /** The number of the next one. */
  var nextId: Long = 0

  /** How many were dropped. */
  var dropped: Long = 0

  private val decided = mutable.ArrayBuffer.empty[Decided[H]]

  /** Takes what was decided. */
  def take(): Seq[Decided[H]] = {
    val result = decided.toSeq
    decided.clear()
    result
  }

  /** Takes a row. */
  def row(row: RowAtHand[H]): Unit = {
    advance(row.time)
    val before = runs
    runs = new mutable.ArrayBuffer(before.size + 2)
    before.foreach { run =>
      if (run.done.isEmpty) step(run, row) else runs += run
    }
    begin(row)
    select()
    if (runs.size > mostRuns) limit()
  }

  /** When something is decided without a row, at the earliest. Long.MaxValue: never. */
  def deadline: Long = runs.iterator.filter(_.done.isEmpty).map(deadline).minOption.getOrElse(Never)

  /** Says that a time has come: no row before it comes any more. */
  def advance(time: Long): Unit = {
    var at = deadline
    while (at <= time && at != Never) {
      val before = runs
      runs = new mutable.ArrayBuffer(before.size)
      before.foreach { run =>
        if (run.done.isEmpty && deadline(run) == at) expire(run, at) else runs += run
      }
      select()
      at = deadline
    }
  }

  private def plus(time: Long, span: Option[Long]) =
    span.fold(Never)(by => if (time > Never - by) Never else time + by)

  private def whole(run: Run[H]) = plus(run.began, automaton.within)

  private def waitsUntil(run: Run[H]): Long = points(run.point).end match {
    case End.AfterTime(within) if (run.open & Point.Waiting) != 0 =>
      math.min(plus(run.took, within), whole(run))
    case _ => Never
  }

  /** When the last of its moves is over. */
  private def movesUntil(run: Run[H]): Long = {
    val point = points(run.point)
    val moves = run.open & ~Point.Waiting
    if (run.isFirst && point.end == End.UnlessNext) Never
    else {
      var until = Long.MinValue
      var i = 0
      while (i < point.moves.size) {
        if ((moves & 1L << i) != 0) until = math.max(until, plus(run.took, point.moves(i).within))
        i += 1
      }
      until
    }
  }

  private def deadline(run: Run[H]): Long = {
    val waits = waitsUntil(run)
    val moves = movesUntil(run)
    math.min(whole(run), if (waits == Never) moves else waits)
  }

  private def expire(run: Run[H], time: Long): Unit = {
    val waits = waitsUntil(run)
    if (waits <= time) {
      runs += run.copy(id = newId(), done = Some(waits))
      val left = run.copy(open = run.open & ~Point.Waiting)
      if (left.open != 0 && waits < whole(run))
        if (deadline(left) > time) runs += left.copy(id = newId())
    } else decided += Decided(run, deadline(run), isMatch = false)
  }

  private def newId(): Long = {
    nextId += 1
    nextId - 1
  }

  private def begin(row: RowAtHand[H]): Unit = {
    var i = 0
    while (i < start.moves.size) {
      val move = start.moves(i)
      if (takes(move, row, none)) take(null, move, row)
      i += 1
    }
  }

  private def takes(move: Move, row: RowAtHand[H], history: H): Boolean =
    move.condition.forall(row.holds(_, history, move.letter)) &&
      !meets(move.takesUnless, row, history)

  private def meets(conditions: Seq[Int], row: RowAtHand[H], history: H): Boolean =
    conditions.exists(row.holds(_, history, -1))

  private def step(stood: Run[H], row: RowAtHand[H]): Unit = {
    val run = points(stood.point).otherwise match {
      case Some((condition, to)) if stood.isFirst && row.holds(condition, stood.history, -1) =>
        stood.copy(point = to)
      case _ => stood
    }
    val point = points(run.point)
    val stopped = meets(point.stops, row, run.history) ||
      run.isFirst && meets(point.stopsAtOnce, row, run.history)
    if (!stopped) {
      if (run.isFirst && point.end == End.UnlessNext)
        runs += run.copy(id = newId(), done = Some(row.time))
      var open = run.open
      val at = runs.size
      var i = 0
      while (i < point.moves.size) {
        val bit = 1L << i
        if ((open & bit) != 0) {
          val move = point.moves(i)
          if (plus(run.took, move.within) <= row.time) open &= ~bit
          else {
            val meetsIt = move.condition.forall(row.holds(_, run.history, move.letter))
            val stays = move.skips match {
              case Skips.None => false
              case Skips.ToNext => !meetsIt
              case Skips.Any => true
            }
            if (meetsIt && !meets(move.takesUnless, row, run.history)) take(run, move, row)
            if (!stays || meets(move.skipsUnless, row, run.history)) open &= ~bit
          }
        }
        i += 1
      }
      if (open != 0) {
        val left =
          if (open == run.open && !run.isFirst) run else run.copy(open = open, isFirst = false)
        runs.insert(at, left)
      }
    }
  }

  /** @param run
    *   null at the start
    */
  private def take(run: Run[H], move: Move, row: RowAtHand[H]): Unit = {
    val history = row.taken(if (run == null) none else run.history, move.letter)
    val to = points(move.to)
    val marked = if (run == null) -1L else run.skipTo
    val skipTo =
      if (move.letter == skipLetter && (marked < 0 || skip.isLast)) row.number else marked
    val taken = Run(
      newId(),
      move.to,
      to.open,
      to.seesFirst,
      if (run == null) row.number else run.first,
      if (run == null) row.time else run.began,
      row.number,
      row.time,
      skipTo,
      history,
      None
    )
    if (to.isOpen) runs += taken
    if (to.end == End.Now) runs += taken.copy(id = newId(), done = Some(row.time))
  }

  /** Gives the matches that no partial match that began before them could still skip. */
  private def select(): Unit = {
    var more = runs.exists(_.done.nonEmpty)
    while (more) {
      val found = runs.filter(_.done.nonEmpty).minBy(run => (run.first, run.id))
      val waits = skip.skips && runs.exists(run => run.done.isEmpty && run.first < found.first)
      if (waits) more = false
      else {
        decided += Decided(found, found.done.get, isMatch = true)
        runs -= found
        skip.until(found).foreach(until => runs.filterInPlace(_.first >= until))
        more = runs.exists(_.done.nonEmpty)
      }
    }
  }

  private def limit(): Unit = {
    if (!drops) throw KeystateErrors.tooManyRuns(runs.size, mostRuns)
    val first = runs.sortBy(run => (run.first, run.id)).take(runs.size - mostRuns).map(_.id).toSet
    runs.filterInPlace(run => !first(run.id))
    dropped += first.size
  }

  private final val Never = Long.MaxValue
}
