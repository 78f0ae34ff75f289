package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeRow}

import keystate.pattern.{AllRuns, Attempt, PreferredMatch, RowAtHand, Run, Thread}

/** What was decided of a key's rows: what goes out of it.
  *
  * @param time
  *   when, in us
  * @param number
  *   the number of the match; 0 if it is none
  * @param taken
  *   the letters and the numbers of its rows
  * @param buffers
  *   the stored buffers of its run
  */
private[expression] final case class PatternResult(
    time: Long,
    number: Long,
    taken: List[(Int, Long)],
    buffers: Array[Byte],
    kind: PatternResult.Kind
)

private[expression] object PatternResult {
  sealed trait Kind
  case object Match extends Kind

  /** A partial match whose time is over. */
  case object Timeout extends Kind

  /** A row that is in no match, or in an empty one. */
  final case class Unmatched(row: Long) extends Kind
}

/** Adds to rows the values that earlier rows of their key had. */
private[expression] final class EarlierValues(columns: PatternRows, rows: NumberedRows) {
  import columns.lags

  /** How many rows before a row are needed. */
  val furthest: Int = lags.map(_.by).maxOption.getOrElse(0)

  def row(number: Long): UnsafeRow = rows.get(number)

  def add(number: Long, row: UnsafeRow): InternalRow =
    if (lags.isEmpty) row
    else {
      val values = new GenericInternalRow(lags.size)
      lags.zipWithIndex.foreach { case (lag, i) =>
        val before = if (number < lag.by) null else rows.get(number - lag.by)
        if (before != null) values.update(i, before.get(lag.of, columns.columns(lag.of).dataType))
      }
      new JoinedRow(row, values)
    }
}

/** The states of a pattern, for one key at a time. */
private[expression] final class PatternEntries(
    counted: StoredCounters,
    val matches: NumberedRows,
    val links: NumberedRows,
    val rows: NumberedRows
) {
  val taken = new TakenRows(links, rows)
  var counters: Counters = _
  private var key: KeyAtHand = _

  def updated: Long = counted.updated + matches.updated + links.updated + rows.updated
  def removed: Long = counted.removed + matches.removed + links.removed + rows.removed

  def begin(key: KeyAtHand): Unit = {
    this.key = key
    counters = counted.read(key)
    matches.begin(key, counters.matches)
    links.begin(key, counters.taken)
    rows.begin(key, counters.rows)
  }

  /** @param isOver
    *   whether nothing of the key is needed any more
    */
  def write(isOver: Boolean): Unit = {
    matches.write()
    links.write()
    rows.write()
    if (isOver) counted.remove(key, counters) else counted.write(key, counters)
  }
}

/** Matches the rows of one key after the other. */
private[expression] sealed abstract class PatternKey(
    pattern: PatternMatch,
    functions: PatternFunctions,
    entries: PatternEntries
) {
  private val keeps = pattern.keepsRows
  private val fields = new GenericInternalRow(PatternMatch.MatchType.size)

  def begin(key: KeyAtHand): Unit = entries.begin(key)

  /** Takes the next row, of this time. */
  def row(row: UnsafeRow, time: Long): Seq[PatternResult]

  /** Says that a time has come. */
  def advance(time: Long, ended: Boolean): Seq[PatternResult]

  /** When something is decided without a row. Long.MaxValue: never. */
  def deadline: Long

  /** Puts what is left into the states. */
  def end(): Unit

  /** A row that has a number. */
  protected final class AtHand(val number: Long, val time: Long, row: InternalRow, ownRow: Boolean)
      extends RowAtHand[History] {
    override def holds(condition: Int, history: History, letter: Int): Boolean =
      functions.holds(condition, row, history, if (ownRow) letter else -1)

    override def taken(history: History, letter: Int): History = History(
      if (keeps) entries.taken.add(entries.counters, history.taken, letter, number) else -1,
      functions.taken(history.buffers, row, letter)
    )
  }

  protected def writeRun(run: Run[History]): Unit = {
    fields.update(0, run.point)
    fields.update(1, run.open)
    fields.update(2, run.isFirst)
    fields.update(3, run.first)
    fields.update(4, run.began)
    fields.update(5, run.last)
    fields.update(6, run.took)
    fields.update(7, run.skipTo)
    fields.update(8, run.history.taken)
    fields.update(9, run.done.orNull[Any])
    fields.update(10, run.history.buffers)
    entries.matches.put(run.id, fields)
  }

  protected def readRun(id: Long, row: UnsafeRow): Run[History] = Run(
    id,
    row.getInt(0),
    row.getLong(1),
    row.getBoolean(2),
    row.getLong(3),
    row.getLong(4),
    row.getLong(5),
    row.getLong(6),
    row.getLong(7),
    History(row.getLong(8), if (row.isNullAt(10)) null else row.getBinary(10)),
    Option.when(!row.isNullAt(9))(row.getLong(9))
  )
}

/** Finds all runs. */
private[expression] final class AllRunsOfKey(
    pattern: PatternMatch,
    finding: PatternFinding.All,
    functions: PatternFunctions,
    entries: PatternEntries
) extends PatternKey(pattern, functions, entries) {
  private var driver: AllRuns[History] = _
  private var before = Seq.empty[Run[History]]
  private var dropping = 0L

  /** How many partial matches were dropped. */
  def dropped: Long = dropping

  override def begin(key: KeyAtHand): Unit = {
    super.begin(key)
    driver =
      new AllRuns(pattern.automaton, pattern.after, History.None, finding.mostRuns, finding.drops)
    before = entries.matches.all.map { case (id, row) => readRun(id, row) }
    driver.runs ++= before
    driver.nextId = entries.counters.matches
  }

  override def row(row: UnsafeRow, time: Long): Seq[PatternResult] = {
    import entries.counters
    val taken = counters.taken
    driver.row(new AtHand(counters.rows, time, row, ownRow = false))
    if (counters.taken > taken) entries.rows.put(counters.rows, row)
    counters.rows += 1
    results()
  }

  override def advance(time: Long, ended: Boolean): Seq[PatternResult] = {
    driver.advance(if (ended) Long.MaxValue - 1 else time)
    results()
  }

  override def deadline: Long = driver.deadline

  private def results(): Seq[PatternResult] = driver.take().map { decided =>
    if (decided.isMatch) entries.counters.found += 1
    PatternResult(
      decided.time,
      if (decided.isMatch) entries.counters.found else 0,
      entries.taken.of(decided.run.history.taken),
      decided.run.history.buffers,
      if (decided.isMatch) PatternResult.Match else PatternResult.Timeout
    )
  }

  override def end(): Unit = {
    val left = driver.runs.map(run => run.id -> run).toMap
    before.foreach(run => if (!left.contains(run.id)) entries.matches.remove(run.id))
    val known = before.map(run => run.id -> run).toMap
    driver.runs.foreach(run => if (!known.get(run.id).exists(_ eq run)) writeRun(run))
    entries.counters.matches = driver.nextId
    dropping += driver.dropped
    entries.taken.sweep(entries.counters, driver.runs.map(_.history.taken)).foreach { needed =>
      entries.rows.all.foreach { case (row, _) => if (!needed(row)) entries.rows.remove(row) }
    }
    // Else matches are numbered on.
    entries.write(isOver = driver.runs.isEmpty && !pattern.output.allRows)
  }
}

/** Finds the preferred match of each row. */
private[expression] final class PreferredOfKey(
    pattern: PatternMatch,
    finding: PatternFinding.Preferred,
    functions: PatternFunctions,
    entries: PatternEntries
) extends PatternKey(pattern, functions, entries) {
  import PreferredOfKey._

  private var driver: PreferredMatch[History] = _
  private var before = Seq.empty[Long]
  private val earlier = new EarlierValues(pattern.rows, entries.rows)

  override def begin(key: KeyAtHand): Unit = {
    super.begin(key)
    import entries.counters
    driver = new PreferredMatch(
      pattern.automaton,
      pattern.after,
      History.None,
      finding.merges,
      finding.mostRuns
    )
    driver.position = counters.position
    driver.matchedTo = counters.matchedTo
    driver.nextId = counters.matches
    before = Nil
    val runs =
      if (counters.next < 0) Nil
      else entries.matches.all.map { case (id, row) => readRun(id, row) }
    if (runs.nonEmpty) { // else they were dropped from a copy
      def thread(run: Run[History]) = Thread(run.id, run.point, run.skipTo, run.history)
      val (best, threads) = runs.partition(_.id == Best)
      before = runs.map(_.id)
      driver.attempt = Some(
        Attempt(
          counters.position,
          runs.head.began,
          counters.next,
          threads.map(thread),
          best.headOption.map(run => thread(run) -> run.last)
        )
      )
    }
  }

  private def at(number: Long): AtHand = {
    val row = entries.rows.get(number)
    new AtHand(number, pattern.rows.timeOf(row), earlier.add(number, row), ownRow = true)
  }

  override def row(row: UnsafeRow, time: Long): Seq[PatternResult] = {
    entries.rows.put(entries.counters.rows, row)
    entries.counters.rows += 1
    go(time, ended = false)
  }

  override def advance(time: Long, ended: Boolean): Seq[PatternResult] = go(time, ended)

  private def go(time: Long, ended: Boolean): Seq[PatternResult] = {
    import entries.counters
    driver.go(counters.rows, at, time, ended).flatMap {
      case PreferredMatch.Matched(history, first, end, decided) =>
        counters.found += 1
        val taken = entries.taken.of(history.taken)
        if (end > first) Some(result(decided, counters.found, taken, PatternResult.Match))
        else
          Option.when(pattern.output.showsEmpty)(
            result(decided, counters.found, Nil, PatternResult.Unmatched(first))
          )
      case PreferredMatch.Unmatched(row, decided, isAlone) =>
        Option.when(isAlone && pattern.output.showsUnmatched)(
          result(decided, 0, Nil, PatternResult.Unmatched(row))
        )
    }
  }

  private def result(time: Long, number: Long, taken: List[(Int, Long)], kind: PatternResult.Kind) =
    PatternResult(time, number, taken, null, kind)

  override def deadline: Long = driver.deadline

  override def end(): Unit = {
    import entries.counters
    val attempt = driver.attempt
    before.foreach(entries.matches.remove)
    attempt.foreach { now =>
      def run(id: Long, thread: Thread[History], last: Long) = Run(
        id,
        thread.point,
        0L,
        isFirst = false,
        now.start,
        now.began,
        last,
        now.began,
        thread.skipTo,
        thread.history,
        None
      )
      now.threads.foreach(thread => writeRun(run(thread.id, thread, now.next)))
      now.best.foreach { case (thread, end) => writeRun(run(Best, thread, end)) }
    }
    counters.position = driver.position
    counters.matchedTo = driver.matchedTo
    counters.matches = driver.nextId
    counters.next = attempt.fold(-1L)(_.next)
    val ends = attempt.toSeq.flatMap { now =>
      now.threads.map(_.history.taken) ++ now.best.map(_._1.history.taken)
    }
    entries.taken.sweep(counters, ends): Unit
    val needed = driver.needed - earlier.furthest
    entries.rows.all.foreach { case (row, _) => if (row < needed) entries.rows.remove(row) }
    entries.write(isOver = false)
  }
}

private object PreferredOfKey {

  /** The number of the entry of the preferred run that has ended. */
  private final val Best = -1L
}
