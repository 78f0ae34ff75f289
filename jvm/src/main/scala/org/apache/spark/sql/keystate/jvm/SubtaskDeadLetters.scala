package org.apache.spark.sql.keystate.jvm

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, XXH64}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

import keystate.DeadLetter
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.state.Timer

/** The dead letters of a subtask: the letters for rows and timers whose calls failed, and their
  * limits.
  *
  * @param keys
  *   the key columns; none without keys
  */
private[keystate] final class SubtaskDeadLetters(declared: DeadLetterSpec, keys: StructType) {
  import declared.policy

  private val keyText = Option.when(keys.nonEmpty)(new JsonText(keys, bare = keys.length == 1))
  private val rowTexts =
    Option.when(declared.asJson)(declared.inputs.map(new JsonText(_, bare = false)))
  private lazy val bytesOf = declared.inputs.map(UnsafeProjection.create(_))
  private var context: OperatorTaskContext = _
  private val same = mutable.LongMap.empty[Int] // how many dead letters there were of equal rows
  private var calls, failed, inARow = 0L
  private val errors = mutable.LinkedHashMap.empty[String, Kind]

  /** The errors of one class: their number, and the first one. */
  private final class Kind(first: DeadLetter[_]) {
    var count = 0L
    def told(name: String): String =
      s"$name $count times, first for key ${first.key}: ${ErrorTexts.shorten(first.message)}"
    def trace: String = first.traceback
  }

  /** Starts to count from 0 with a task's first pass. */
  def begin(context: OperatorTaskContext): Unit = if (this.context ne context) {
    this.context = context
    calls = 0
    failed = 0
    inARow = 0
    same.clear()
    errors.clear()
  }

  /** So many rows and timers did not fail. */
  def succeeded(count: Int): Unit = {
    calls += count
    inARow = 0
  }

  /** A letter of the current row or timer. Throws if a limit is exceeded.
    *
    * @param row
    *   the element, the index of its input and its row; None for a timer
    */
  def of(
      error: Throwable,
      key: InternalRow,
      row: Option[(Int, Any, InternalRow)],
      timer: Option[Timer]
  ): DeadLetter[Any] = {
    calls += 1
    failed += 1
    inARow += 1
    val batch = Option.when(context.batch.streaming)(context.batch.id)
    val letter = DeadLetter[Any](
      id = null,
      keyText.fold[String](null)(_.of(key)),
      row.map { case (input, element, row) =>
        rowTexts.fold(element)(texts => texts(input).of(row))
      }.orNull,
      row.filter(_ => declared.inputs.size > 1).map(row => Int.box(row._1 + 1)).orNull,
      timer.map(each => Long.box(each.time)).orNull,
      timer.map(_.domain.toString.toLowerCase).orNull,
      error.getClass.getName,
      ErrorTexts.messageOf(error),
      ErrorTexts.traceOf(error),
      batch.map(Long.box).orNull,
      batch.map(_ => new java.sql.Timestamp(context.batch.processingTime.get)).orNull
    )
    errors.getOrElseUpdate(letter.error, new Kind(letter)).count += 1
    check("maxInBatch", policy.maxInBatch, failed, letter.traceback)
    check("maxInARow", policy.maxInARow, inARow, letter.traceback)
    letter.copy(id = s"${batch.getOrElse(ofBatchQuery)}-${number(letter, row)}")
  }

  /** Equal rows of one key, and equal rows of a stream without keys, are in one subtask. In a batch
    * query without keys they may be in several.
    */
  private def ofBatchQuery = if (keys.nonEmpty) "batch" else s"batch-${context.index}"

  /** Identifies a letter by its row or timer, and equal ones by their count so far. So the id is
    * the same when the micro-batch is run again, whatever the order and the partitions.
    */
  private def number(letter: DeadLetter[Any], row: Option[(Int, Any, InternalRow)]): String = {
    val around = Seq(letter.key, letter.input, letter.timer, letter.timerDomain).mkString(" ")
    val ofTimer = XXH64.hashUTF8String(UTF8String.fromString(around), 0)
    val hash = row.fold(ofTimer) { case (input, _, row) =>
      val bytes = bytesOf(input)(row)
      XXH64.hashUnsafeBytes(bytes.getBaseObject, bytes.getBaseOffset, bytes.getSizeInBytes, ofTimer)
    }
    val count = same.getOrElse(hash, 0) + 1
    same(hash) = count
    f"$hash%016x-$count"
  }

  /** Looks at the share, when all rows and timers were processed. */
  def end(): Unit = policy.maxShare.filter(failed > _ * calls).foreach { share =>
    throw tooMany(s"of $calls, more than maxShare=$share", "")
  }

  private def check(limit: String, most: Option[Int], count: Long, trace: String): Unit =
    most.filter(count > _).foreach { most =>
      throw tooMany(s"so far, more than $limit=$most", trace)
    }

  private def tooMany(limit: String, trace: String) = {
    val kinds = errors.toSeq.sortBy(-_._2.count)
    val others = kinds.size - SubtaskDeadLetters.Named
    KeystateErrors.tooManyDeadLetters(
      context.spec.name,
      failed,
      context.index,
      Option.when(context.batch.streaming)(context.batch.id),
      limit,
      kinds.take(SubtaskDeadLetters.Named).map { case (name, kind) => kind.told(name) } ++
        Option.when(others > 0)(s"and $others other kinds of errors"),
      if (trace.isEmpty) kinds.head._2.trace else trace
    )
  }
}

private object SubtaskDeadLetters {

  /** Kinds of errors that a summary names. */
  final val Named = 5
}
