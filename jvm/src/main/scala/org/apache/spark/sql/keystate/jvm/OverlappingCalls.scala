package org.apache.spark.sql.keystate.jvm

import java.util.ArrayList
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.errors.KeystateException
import keystate.{AsyncKeyedProcessFunction, OnTimerContext}

/** Runs overlapping calls of one function, in the thread of the subtask: results from other threads
  * go into a mailbox, and are processed here.
  *
  * @param element
  *   the context of the current call
  */
private[jvm] final class OverlappingCalls(
    function: AsyncKeyedProcessFunction[Any, Any, Any],
    settings: AsyncSettings,
    element: OnTimerContext[Any],
    host: CallHost
) {
  private val mailbox = new LinkedBlockingQueue[() => Unit]
  private var current: Attempt = _ // the current call; null between callbacks
  private var runner: Thread = _ // that makes the calls

  /** Makes all calls, calls of one key one after the other, and returns their results.
    *
    * @param keyed
    *   whether calls have keys; if not, no call waits for another one
    */
  def run(calls: Seq[ElementCall], keyed: Boolean): Iterator[InternalRow] = {
    val ofKeys =
      if (!keyed) calls.iterator.map(Seq(_))
      else {
        val found = mutable.LinkedHashMap.empty[UnsafeRow, mutable.ArrayBuffer[ElementCall]]
        calls.foreach(call => found.getOrElseUpdate(call.key, mutable.ArrayBuffer.empty) += call)
        // First the keys with the most calls, so that the last keys are short ones.
        found.values.toSeq.sortBy(-_.size).iterator
      }
    runner = Thread.currentThread
    val round = new Round(ofKeys.map(calls => new Lane(calls.iterator)))
    round.run()
    host.settle(calls)
    if (!settings.ordered)
      round.unordered ++= calls.iterator.filter(_.error != null).flatMap(_.results)
    if (settings.ordered) calls.iterator.flatMap(_.results) else round.unordered.iterator
  }

  /** The calls of one key. */
  private final class Lane(calls: Iterator[ElementCall]) {
    private var call: ElementCall = _ // the one in flight; null if none is
    private var attempt: Attempt = _ // its last one

    def hasNext: Boolean = calls.hasNext

    /** Begins the next call, which may end during this one. */
    def start(round: Round): Unit = {
      val next = calls.next()
      call = next
      // Not before its turn: another timer of the key may have deleted it.
      if (next.timer != null && !host.take(next)) end(round)
      else {
        if (next.timer == null)
          settings.timeoutNanos.foreach { nanos =>
            round.wakeIn(nanos) { () =>
              if (call eq next) tryOnce(round, 0)(function.timeout(next.value, _))
            }
          }
        tryAgain(round, 1)
      }
    }

    private def end(round: Round): Unit = {
      call = null
      attempt = null
      round.ended(this)
    }

    private def tryAgain(round: Round, number: Int): Unit = tryOnce(round, number) { context =>
      if (call.timer == null) function.processElement(call.value, context)
      else function.onTimer(call.timer.time, context)
    }

    /** @param number
      *   how many attempts there were with this one; 0 if no other may follow
      */
    private def tryOnce(round: Round, number: Int)(
        begin: AttemptContext => Future[IterableOnce[Any]]
    ): Unit = {
      val own = new Attempt(call)
      if (attempt != null) attempt.isOver = true
      attempt = own
      val future =
        try {
          val begun = own.within(begin(new AttemptContext(own)))
          if (begun == null) Future.failed(new NullPointerException("there is no Future"))
          else begun
        } catch { case NonFatal(e) => Future.failed(e) }
      def settle(outcome: Try[IterableOnce[Any]]): Unit =
        if ((attempt eq own) && !own.isOver) settled(round, own, number, outcome)
      own.onError = error => settle(Failure(error))
      future.value match {
        case Some(outcome) => settle(outcome)
        case None =>
          future
            .onComplete(outcome => mailbox.put(() => settle(outcome)))(ExecutionContext.parasitic)
      }
    }

    private def settled(
        round: Round,
        own: Attempt,
        number: Int,
        outcome: Try[IterableOnce[Any]]
    ): Unit = {
      // An iterator may read states as it goes.
      val results = outcome.flatMap(found => Try(own.within(found.iterator.toVector)))
      val again = settings.retry.filter { retry =>
        call.timer == null && number > 0 && retry.canRetry(number) && {
          val predicates = retry.getRetryPredicate
          results match {
            case Success(found) => predicates.resultPredicate.exists(_(found))
            case Failure(_: KeystateException) => false
            case Failure(e) =>
              predicates.exceptionPredicate.fold(predicates.resultPredicate.isEmpty)(_(e))
          }
        }
      }
      own.isOver = true
      again match {
        case Some(retry) =>
          val asking = call
          round.wakeIn(TimeUnit.MILLISECONDS.toNanos(retry.getBackoffTimeMillis(number))) { () =>
            if ((call eq asking) && (attempt eq own)) tryAgain(round, number + 1)
          }
        case None =>
          results.map(_.foreach(result => own.emitted.add(host.row(result)))) match {
            case Failure(e) => host.failed(call, e)
            case Success(_) => call.results = own.emitted.asScala.toVector
          }
          if (!settings.ordered) round.unordered ++= call.results
          end(round)
      }
    }
  }

  /** One try to process an element, or to fire a timer. Its callbacks are put into the mailbox. */
  private final class Attempt(call: ElementCall) extends ExecutionContext {
    val emitted = new ArrayList[InternalRow]
    var onError: Throwable => Unit = _

    /** Whether its outcome no longer matters. */
    @volatile var isOver = false

    /** Runs the body with the call as the current one. */
    def within[T](body: => T): T = {
      host.enter(call, emitted)
      current = this
      try body
      finally {
        current = null
        host.leave()
      }
    }

    override def execute(callback: Runnable): Unit = mailbox.put { () =>
      // A callback that outlives its call has no key; the callback gets an error when it uses one.
      if (isOver) callback.run()
      else
        try within(callback.run())
        catch { case NonFatal(e) => onError(e) }
    }

    override def reportFailure(cause: Throwable): Unit = mailbox.put(() => onError(cause))
  }

  /** The context of an attempt: that of the current call, while the attempt is current. */
  private final class AttemptContext(attempt: Attempt)
      extends ForwardedContext(
        element,
        () => (attempt eq current) && (Thread.currentThread eq runner)
      ) {
    override def executionContext: ExecutionContext = attempt
  }

  /** Calls that are made together, until all have ended. */
  private final class Round(lanes: Iterator[Lane]) {
    val unordered = mutable.ArrayBuffer.empty[InternalRow]
    private val freed = mutable.Queue.empty[Lane]
    private val alarms = mutable.PriorityQueue.empty[Alarm](Ordering.by(alarm => -alarm.at))
    private val began = System.nanoTime
    private var inFlight = 0

    def run(): Unit = {
      fill()
      while (inFlight > 0) {
        host.checkAlive()
        val mail = mailbox.poll(idleNanos, TimeUnit.NANOSECONDS)
        if (mail != null) mail()
        while (alarms.nonEmpty && alarms.head.at <= elapsed) {
          val alarm = alarms.dequeue()
          alarm.ring()
        }
        fill()
      }
    }

    private def elapsed: Long = System.nanoTime - began

    private def idleNanos: Long = {
      val alarm = alarms.headOption.fold(Round.PollNanos)(_.at - elapsed)
      math.min(math.max(alarm, 0), Round.PollNanos)
    }

    private def fill(): Unit =
      while (freed.nonEmpty || (inFlight < settings.capacity && lanes.hasNext)) {
        val lane =
          if (freed.nonEmpty) freed.dequeue()
          else {
            inFlight += 1
            lanes.next()
          }
        lane.start(this)
      }

    /** Says that a key's call has ended: its next one can begin, or that of another key. */
    def ended(lane: Lane): Unit = if (lane.hasNext) freed += lane else inFlight -= 1

    def wakeIn(nanos: Long)(ring: () => Unit): Unit = alarms += new Alarm(elapsed + nanos, ring)
  }

  private final class Alarm(val at: Long, val ring: () => Unit)

  private object Round {
    val PollNanos: Long = TimeUnit.MILLISECONDS.toNanos(100)
  }
}
