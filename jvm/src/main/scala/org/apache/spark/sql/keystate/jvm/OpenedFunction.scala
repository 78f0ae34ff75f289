package org.apache.spark.sql.keystate.jvm

import java.util.{ArrayDeque, Collection => JCollection}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.TaskKilledException
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.errors.{KeystateErrors, KeystateException}
import keystate.{
  Collector, DeadLetter, InitialStateFunction, MapStateDescriptor, OutputTag,
  ReadOnlyBroadcastState, TimeDomain
}
import org.apache.spark.sql.keystate.jvm.state.{CurrentKey, JvmOperatorState}
import org.apache.spark.sql.keystate.operator.{FunctionPass, OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.realtime.{LiveRows, LiveTimers}
import org.apache.spark.sql.keystate.state.{DueTimers, FamilyEntries, Timer, Timers}

/** An opened JVM function of one subtask. It serves one task after the other in a query's run. */
private[keystate] final class OpenedFunction(function: JvmFunction, opening: OperatorTaskContext)
    extends AutoCloseable {
  private val cursor = new CurrentKey
  private val writer = function.outputs.writer(opening.spec.name)
  private val results = new ArrayDeque[InternalRow]
  private var emitted: JCollection[InternalRow] = results // takes the results of the current call

  private val element = new Element
  private val collector: Collector[Any] = result => {
    cursor.checkCaller("The collector")
    emitted.add(writer.main(result)): Unit
  }

  private def emit(tag: OutputTag[_], result: Any): Unit = {
    cursor.checkCaller("The context")
    writer.side(tag, result).foreach(emitted.add)
  }

  private val calls = function.newInstance()
  private val user = calls.function
  private val runtime =
    new TaskRuntimeContext(function.states, cursor, function.key, () => element.context)
  user.setRuntimeContext(runtime)

  private val operatorState: Option[JvmOperatorState] = Option.when(opening.spec.checkpointed) {
    new JvmOperatorState(calls.user, function.operatorState, runtime, opening)
  }
  guard("initializeState")(operatorState.foreach(_.initialize()))
  guard("open")(user.open(runtime))

  private val overlapping: Option[OverlappingCalls] = calls match {
    case async: FunctionCalls.Overlapping =>
      Some(new OverlappingCalls(async.own.function, async.own.settings, element, Host))
    case _ => None
  }

  private val oneByOne = overlapping.isEmpty && !calls.takesBatches

  private val broadcast: Option[JvmBroadcast] = function.broadcast.map { declared =>
    new JvmBroadcast(declared, calls, function.states, runtime, cursor, () => element.key, emit)
  }

  /** Null if an error of a row ends the query. */
  private val guarded: GuardedCalls =
    function.deadLetters
      .map(new GuardedCalls(_, opening, operatorState.fold(() => () => ())(own => own.keep _)))
      .orNull
  private val deadLetters = function.deadLetters.map { spec =>
    (spec.policy.tag, runtime.metrics.group.counter(OpenedFunction.DeadLetters))
  }
  private val guardsSecond =
    guarded != null && !user.isInstanceOf[InitialStateFunction[_, _]]
  private val windows = opening.spec.windows.nonEmpty

  /** Whether this instance can serve a task: with operator state, only if the task begins with that
    * state.
    */
  def goesOn(context: OperatorTaskContext): Boolean = operatorState.forall(_.goesOn(context))

  /** Applies the function to rows, and then to timers, as the result is read. In real-time mode it
    * is applied to both as they come.
    */
  def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): Pass = {
    element.context = context
    if (guarded == null) enter(context.entries, context.timers)
    else {
      guarded.begin(context)
      enter(guarded.entries, guarded.timers)
    }
    element.row = null
    guard("notifyCheckpointComplete")(operatorState.foreach(_.begin(context)))
    val live = Option.when(context.batch.realTime) {
      val passed = DueTimers.none
      val live = element.timers.map(new LiveTimers(_, passed, context.lease))
      new LiveRows(rows, context.columns.inputs.head.all, passed, live, context.task)
    }
    new Pass(rows, due, live, context)
  }

  private def enter(entries: Seq[FamilyEntries], timers: Option[Timers]): Unit = {
    cursor.enter(entries)
    element.timers = timers
  }

  override def close(): Unit = {
    cursor.leave()
    user.close()
  }

  /** One pass over broadcast elements, rows and timers. Its result may not be read to the end. */
  final class Pass(
      rows: TaskRows,
      due: DueTimers,
      live: Option[LiveRows],
      context: OperatorTaskContext
  ) extends Iterator[InternalRow]
      with FunctionPass {
    private val readers = context.inputs.toArray
    private val timerKey = new UnsafeRow(readers.head.keys.width)
    private val isKeyed = readers.head.keys.width > 0
    private val updatedBefore = cursor.updated
    private val removedBefore = cursor.removed
    private val elements = broadcast.fold(Iterator.empty[InternalRow])(_.enter(context))
    private val source: Iterator[InternalRow] = live.getOrElse(rows)
    private var ended = false

    def hasEnded: Boolean = ended

    override def output: Iterator[InternalRow] = this
    override def updated: Long = cursor.updated - updatedBefore
    override def removed: Long = cursor.removed - removedBefore

    override def hasNext: Boolean = {
      while (results.isEmpty && !ended) {
        context.lease.useInOneThread {
          cursor.enterCalls()
          try advance()
          finally cursor.leaveCalls()
        }
        if (results.isEmpty && !ended) live.foreach(_.await())
      }
      !results.isEmpty
    }

    /** Calls the function until it emits something or there is nothing to call it with. */
    private def advance(): Unit = {
      var more = true
      var over = false
      while (results.isEmpty && more) {
        over = live.forall(_.isOver) // before the last look for rows
        if (elements.hasNext) processBroadcast(elements.next())
        else if (live.exists(_.timerIsNext())) fireNext(live.get.passed)
        else if (source.hasNext) {
          processNext()
          live.foreach(_.processed())
        } else if (over && due.nonEmpty) fireNext(due)
        else more = false
      }
      if (!more && over) end()
    }

    private def end(): Unit = {
      ended = true
      live.foreach(rows => context.addMetrics(rows.metrics))
      if (guarded != null) guarded.deadLetters.end()
      guard("snapshotState")(operatorState.foreach(_.snapshot(context)))
      if (runtime.metrics.nonEmpty)
        guard("metrics")(context.addMetrics(runtime.metrics.report()))
    }

    override def next(): InternalRow = {
      if (!hasNext) Iterator.empty.next()
      results.poll()
    }

    private def processBroadcast(element: InternalRow): Unit =
      try broadcast.get.process(element, collector)
      catch
        failed(
          s"${if (cursor.isOpen) ofKey else ""}broadcast element ${shorten(broadcast.get.where)}"
        )

    private def processNext(): Unit =
      if (oneByOne) process(source.next())
      else if (overlapping.nonEmpty)
        overlapping.get.run(nextCalls(), isKeyed).foreach(results.addLast)
      else {
        val all = nextCalls()
        try if (guarded == null) processBatch(all) else processGuarded(all)
        catch failed(s"a batch of ${all.size} elements")
      }

    private def processBatch(all: IndexedSeq[ElementCall]): Unit =
      calls.processBatch(new ElementBatch(all, () => element.key, Host), element, collector)

    /** Calls the function; after an error for each half of the elements, until one fails alone. */
    private def processGuarded(all: IndexedSeq[ElementCall]): Unit = {
      val before = results.size
      guarded.call(all.size)(processBatch(all)) { error =>
        forget(before)
        // The function may have changed its elements.
        val anew = all.map(call => call.anew(element.reader(call.input)))
        if (anew.size > 1) anew.grouped((anew.size + 1) / 2).foreach(processGuarded)
        else {
          Host.enter(anew.head, results)
          toLetter(error)
          Host.leave()
        }
      }
    }

    private def nextCalls(): IndexedSeq[ElementCall] = {
      val calls = IndexedSeq.newBuilder[ElementCall]
      var count = 0
      while (count < OpenedFunction.MostTogether && source.hasNext) {
        calls += callOf(source.next())
        count += 1
      }
      calls.result()
    }

    private def fireNext(due: DueTimers): Unit = overlapping match {
      case None => fire(due.dequeue())
      case Some(overlapping) =>
        val calls = due.dequeueFirsts().map { timer =>
          timerKey.pointTo(timer.key, timer.key.length)
          prepared(new ElementCall(timerKey.copy(), timer.group, 0, null, null, timer))
        }
        overlapping.run(calls, keyed = true).foreach(results.addLast)
    }

    private def callOf(whole: InternalRow): ElementCall = {
      val input = rows.input
      val keys = readers(input).keys
      val row = readers(input).toColumns(whole).copy()
      val (key, group) = (keys.key(whole).copy(), keys.group(whole))
      prepared(new ElementCall(key, group, input, row, element.reader(input)(row), null))
    }

    private def prepared(call: ElementCall): ElementCall = {
      if (guarded != null && overlapping.nonEmpty) call.changes = new Changes
      call
    }

    private def process(whole: InternalRow): Unit = {
      val input = rows.input
      val reader = readers(input)
      cursor.moveTo(reader.keys.key(whole), reader.keys.group(whole))
      element.read(input, reader.toColumns(whole))
      try
        if (guarded != null && (input == 0 || guardsSecond))
          guarded.call(1)(callElement())(failedAlone)
        else callElement()
      catch failed(s"${ofKey}row ${shorten(element.value)}")
      cursor.leave()
    }

    private def callElement(): Unit =
      if (element.input == 0) calls.processElement(element.value, element, collector)
      else calls.processSecond(element.value, element, collector)

    private def fire(due: Timer): Unit = if (element.timers.get.take(due)) {
      timerKey.pointTo(due.key, due.key.length)
      cursor.moveTo(timerKey, due.group)
      element.timer = due
      try
        // A window that fires has an attempt of its own: its timer goes on when that fails.
        if (guarded == null || windows) calls.onTimer(due.time, element, collector)
        else guarded.call(1)(calls.onTimer(due.time, element, collector))(failedAlone)
      catch failed(s"${ofKey}timer ${due.time}")
      element.timer = null
      cursor.leave()
    }
  }

  /** Writes a dead letter of the current row or timer, in place of its results. */
  private def failedAlone(error: Throwable): Unit = {
    results.clear()
    toLetter(error)
  }

  private def toLetter(error: Throwable): Unit = {
    // The function may have changed its element.
    val anew = Option.when(element.timer == null)(
      (element.input, element.reader(element.input)(element.row), element.row)
    )
    emitDeadLetter(guarded.deadLetters.of(error, cursor.currentRow, anew, Option(element.timer)))
  }

  private def emitDeadLetter(letter: DeadLetter[Any]): Unit = deadLetters.foreach {
    case (tag, count) =>
      count.inc()
      emit(tag, letter)
  }

  /** Removes all results but the first. */
  private def forget(first: Int): Unit = while (results.size > first) results.removeLast()

  /** The host of functions that process several elements at the same time. */
  private object Host extends CallHost {
    override def enter(call: ElementCall, taking: JCollection[InternalRow]): Unit = {
      cursor.moveTo(call.key, call.group)
      element.moveTo(call)
      emitted = taking
      if (call.changes != null) guarded.moveTo(call.changes)
    }

    override def leave(): Unit = {
      cursor.leave()
      element.timer = null
      emitted = results
      // Taking a timer belongs to no call, and is not undone.
      if (guarded != null && overlapping.nonEmpty) guarded.moveTo(null)
    }

    override def row(result: Any): InternalRow = writer.main(result)

    override def take(call: ElementCall): Boolean = element.timers.get.take(call.timer)

    override def failed(call: ElementCall, error: Throwable): Unit =
      if (guarded != null && GuardedCalls.isOfRow(error)) {
        guarded.undo(call.changes)
        call.error = error
      } else {
        enter(call, results)
        val what =
          if (call.timer == null) s"row ${shorten(call.value)}" else s"timer ${call.timer.time}"
        OpenedFunction.this
          .failed(s"$ofKey$what")
          .applyOrElse(error, (fatal: Throwable) => throw fatal)
      }

    // In the order of the calls, whichever ended first: so dead letters have the same ids again.
    override def settle(calls: Seq[ElementCall]): Unit = if (guarded != null) calls.foreach { call =>
      if (call.error == null) guarded.deadLetters.succeeded(1)
      else {
        val letter = new ArrayDeque[InternalRow]
        enter(call, letter)
        toLetter(call.error)
        leave()
        call.results = letter.asScala.toSeq
      }
    }

    override def checkAlive(): Unit = element.context.task.killTaskIfInterrupted()
  }

  /** Rethrows errors of Keystate and a task's kill as they are. Every other non-fatal error is
    * reported as a failure of the function.
    */
  private def failed(where: => String): PartialFunction[Throwable, Nothing] = {
    case e: TaskKilledException => throw e
    case e: KeystateException => throw e
    case NonFatal(e) => throw KeystateErrors.functionFailed(element.context.spec.name, where, e)
  }

  private def guard(where: String)(call: => Unit): Unit =
    try call
    catch failed(where)

  private def ofKey: String =
    if (element.context.columns.grouping.isEmpty) "" else s"key ${shorten(element.key)}, "

  private def shorten(value: Any): String = {
    val text = value match {
      case row: Row if row.length == 1 => String.valueOf(row.get(0))
      case other => String.valueOf(other)
    }
    if (text.length <= 200) text else s"${text.take(200)}..."
  }

  /** The context of the current element or timer. */
  private final class Element extends CurrentElement(function, cursor, opening) {
    override def output[T](tag: OutputTag[T], result: T): Unit = emit(tag, result)

    override def getBroadcastState[K, V](
        descriptor: MapStateDescriptor[K, V]
    ): ReadOnlyBroadcastState[K, V] =
      broadcast.get.state(descriptor).asInstanceOf[ReadOnlyBroadcastState[K, V]]

    override def attempt(domain: TimeDomain, time: Long)(fire: => Unit): Unit =
      if (guarded == null) fire
      else {
        val before = results.size
        guarded.attempt(fire) { error =>
          forget(before)
          cursor.changed()
          val of = Timer(domain, time, cursor.group, cursor.key)
          emitDeadLetter(guarded.deadLetters.of(error, cursor.currentRow, None, Some(of)))
        }
      }
  }
}

private object OpenedFunction {

  /** The metric that counts dead letters, as Python calls it. */
  final val DeadLetters = "keystateDeadLetters"

  /** How many elements an async function or a batch function processes before the next ones. */
  final val MostTogether = 4096
}
