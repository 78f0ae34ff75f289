package org.apache.spark.sql.keystate.expression

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

import keystate.TimeDomain.EVENT_TIME
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.metrics.MetricValues
import org.apache.spark.sql.keystate.operator.{
  FunctionPass, LateRows, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.{DueTimers, Timer}

/** A task's pass over rows that are matched: they wait until the watermark has passed them, and then
  * come in order of time. A key has a timer at or before the time of its first waiting row, and of
  * what is decided without a row.
  */
private[expression] final class PatternPass(
    pattern: PatternMatch,
    rows: TaskRows,
    due: DueTimers,
    context: OperatorTaskContext
) extends FunctionPass {
  import PatternPass._

  private val functions =
    context.subtask.getOrOpen(new PatternFunctions(pattern))(_ => true)
  private val reader = context.inputs.head
  private val timers = context.timers.get
  private val waiting =
    new TimedEntries(context.entries.head, PatternMatch.WaitingKey, numbered = true)
  private val entries = new PatternEntries(
    new StoredCounters(context.entries(1)),
    new NumberedRows(context.entries(2), PatternMatch.MatchType),
    new NumberedRows(context.entries(3), PatternMatch.TakenType),
    new NumberedRows(context.entries(4), pattern.rows.stored)
  )
  private val matcher = pattern.finding match {
    case all: PatternFinding.All => new AllRunsOfKey(pattern, all, functions, entries)
    case one: PatternFinding.Preferred => new PreferredOfKey(pattern, one, functions, entries)
  }
  private val results = new PatternRowsOut(pattern, functions, entries, context)

  private val isStreaming = context.batch.streaming
  private val lateTime = Micros.ofMillis(context.lateWatermark.getOrElse(Long.MinValue))
  private val lateRows = for {
    columns <- pattern.output.late
    index <- context.spec.lateOutputs.headOption.flatten
  } yield {
    val input = context.columns.inputs.head
    new LateRows(context.columns.output, index, input.copy(seen = input.seen.take(columns)))
  }
  private var late = 0L

  private val encode = UnsafeProjection.create(pattern.rows.stored)
  private val order = {
    val ties = RowOrdering.create(pattern.rows.order, pattern.rows.columns)
    val byTime: Ordering[(Long, UnsafeRow)] = Ordering.by(_._1)
    byTime.orElse((a, b) => ties.compare(a._2, b._2))
  }

  override def updated: Long = waiting.updated + entries.updated
  override def removed: Long = waiting.removed + entries.removed

  override val output: Iterator[InternalRow] = Iterator.single(()).flatMap { _ =>
    context.lease.useInOneThread(takeAll())
    fired ++ lateRows.iterator.flatMap(_.rows)
  }

  /** Has all rows wait. Of a key whose first one waits for less than before, the timer is set. */
  private def takeAll(): Unit = {
    val firsts = new JHashMap[UnsafeRow, Arrived]
    while (rows.hasNext) {
      val row = rows.next()
      val seen = reader.toColumns(row)
      val timed = pattern.rows.time.forall(!seen.isNullAt(_))
      val time = if (timed) pattern.rows.timeOf(seen) else Long.MinValue
      if (timed && isStreaming && time <= lateTime) lateRows match {
        case Some(kept) => kept.add(row)
        case None => late += 1
      }
      else if (timed) {
        val key = reader.keys.key(row)
        var own = firsts.get(key)
        if (own == null) {
          val copy = key.copy()
          own = new Arrived(KeyAtHand(reader.keys.group(row), copy.getBytes))
          firsts.put(copy, own)
        }
        await(own, time, seen)
      }
    }
    firsts.values.forEach { own =>
      timers.set(EVENT_TIME, Micros.millis(own.first), own.key.group, own.key.bytes, true)
    }
  }

  private def await(own: Arrived, time: Long, row: InternalRow): Unit = {
    own.first = math.min(own.first, time)
    // Rows of a time stay in the order in which they came.
    val entry = waiting.entry(own.key.bytes, time, (context.batch.id << 32) + own.count)
    waiting.put(own.key.group, entry, StateRows.encode(encode(row)))
    own.count += 1
  }

  private def fired: Iterator[InternalRow] =
    context.firing(due).flatMap { timer =>
      context.lease.useInOneThread(fire(timer)).iterator
    } ++ Iterator.single(()).flatMap { _ =>
      val dropped = matcher match {
        case all: AllRunsOfKey => all.dropped
        case _ => 0L
      }
      context.addMetrics(
        MetricValues(Map(PatternMatch.LateRows -> late, PatternMatch.DroppedMatches -> dropped))
      )
      Iterator.empty
    }

  /** Matches the rows of a timer's key that the watermark has passed. */
  private def fire(timer: Timer): Seq[InternalRow] =
    if (!timers.take(timer)) Nil
    else {
      val key = KeyAtHand(timer.group, timer.key)
      val ended = !isStreaming
      val now =
        if (ended) Long.MaxValue else Micros.ofMillis(context.watermark.getOrElse(Long.MinValue))
      var next = Long.MaxValue
      val ready = waiting
        .firsts(key.group, key.bytes) { entry =>
          val time = waiting.time(entry.key)
          if (time > now) next = time
          time <= now
        }
        .map { entry =>
          waiting.remove(key.group, entry.key)
          val row = new UnsafeRow(pattern.rows.columns.size)
          StateRows.point(row, entry.value)
          waiting.time(entry.key) -> row
        }
      matcher.begin(key)
      results.begin(key)
      val made = Seq.newBuilder[InternalRow]
      ready.sorted(order).foreach { case (time, row) =>
        made ++= matcher.row(row, time).flatMap(results.of)
      }
      made ++= matcher.advance(now, ended).flatMap(results.of)
      next = math.min(next, matcher.deadline)
      matcher.end()
      if (!ended && next < Long.MaxValue)
        timers.set(EVENT_TIME, Micros.millis(next), key.group, key.bytes, true)
      made.result()
    }
}

private object PatternPass {

  /** What a micro-batch has brought a key. */
  private final class Arrived(val key: KeyAtHand) {
    var first: Long = Long.MaxValue
    var count: Long = 0
  }
}

/** Makes rows of what was decided. */
private final class PatternRowsOut(
    pattern: PatternMatch,
    functions: PatternFunctions,
    entries: PatternEntries,
    context: OperatorTaskContext
) {
  import pattern.{output, rows}

  private val earlier = new EarlierValues(rows, entries.rows)
  private val keyTypes = context.columns.grouping.map(_.dataType)
  private val key = new UnsafeRow(keyTypes.size)
  private val told = new GenericInternalRow(PatternRowsOut.Told.size)
  private val nothing = new GenericInternalRow(0)
  private val all =
    if (pattern.atEnd.nonEmpty) pattern.atEnd else pattern.inRun
  private val types = all.map(_.function.dataType)
  private val isKept = pattern.keepsRows

  private val made: Seq[UnsafeProjection] = {
    val columns = if (output.allRows) rows.columns.map(_.dataType) ++ types else Nil
    val row = keyTypes ++ PatternRowsOut.Told ++ columns ++ types
    val fields = row.zipWithIndex.map { case (of, i) => BoundReference(i, of, nullable = true) }
    val from = row.size - types.size
    val shown = fields.take(from - (if (output.allRows) types.size else 0)) ++
      (if (output.allRows) shownOf(fields.slice(from - types.size, from)) else Nil) ++
      shownOf(fields.drop(from))
    if (!output.hasSides) Seq(UnsafeProjection.create(shown))
    else {
      val structs = context.columns.output.map(_.dataType)
      structs.indices.map { i =>
        UnsafeProjection.create(structs.indices.map { other =>
          if (other == i) CreateStruct(shown) else Literal(null, structs(other))
        })
      }
    }
  }
  private val timeouts = made.size - 1

  /** The last ones: those before are for conditions only. */
  private def shownOf(results: Seq[Expression]) = results.takeRight(output.results)

  private val joined = new JoinedRow
  private val left = new JoinedRow
  private val right = new JoinedRow

  def begin(of: KeyAtHand): Unit = key.pointTo(of.bytes, of.bytes.length)

  def of(result: PatternResult): Seq[InternalRow] = {
    told.update(0, result.time)
    told.update(1, if (result.number == 0) null else result.number)
    val to = if (result.kind == PatternResult.Timeout) timeouts else 0
    if (result.kind == PatternResult.Timeout && !output.timeouts) Nil
    else if (!output.allRows) {
      told.update(2, null)
      val values =
        if (!isKept) functions.runResults(result.buffers)
        else functions.endResults(whole(result))
      Seq(row(to, nothing, nothing, values))
    } else
      result.kind match {
        case PatternResult.Unmatched(number) =>
          told.update(2, null)
          val none = functions.endResults(functions.results.create()).copy()
          val values = if (result.number == 0) new GenericInternalRow(types.size) else none
          Seq(row(to, earlier.row(number), values, values))
        case _ =>
          val whole = functions.endResults(this.whole(result)).copy()
          val running = functions.results.create()
          result.taken.map { case (letter, number) =>
            val taken = earlier.row(number)
            told.update(2, functions.name(letter))
            functions.add(running, earlier.add(number, taken), letter)
            row(to, taken, functions.endResults(running), whole)
          }
      }
  }

  /** The buffers of all rows of a match. */
  private def whole(result: PatternResult): Buffers = {
    val buffers = functions.results.create()
    result.taken.foreach { case (letter, number) =>
      functions.add(buffers, earlier.add(number, earlier.row(number)), letter)
    }
    buffers
  }

  private def row(
      to: Int,
      taken: InternalRow,
      running: InternalRow,
      whole: InternalRow
  ): InternalRow =
    made(to)(joined(left(key, told), right(new JoinedRow(taken, running), whole))).copy()
}

private[keystate] object PatternRowsOut {

  /** The columns after the key: when it was decided, the number of the match, and the letter. */
  val Told: Seq[DataType] = Seq(TimestampType, LongType, StringType)
}
