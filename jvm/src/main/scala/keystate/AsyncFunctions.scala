package keystate

import java.util.concurrent.TimeoutException

import scala.concurrent.{ExecutionContext, Future}

/** What is known of an element whose call may wait. */
trait AsyncContext[K] extends ProcessContext[K] {

  /** Runs callbacks as a part of the call: in the function's thread, with the states, timers and
    * outputs of the call's key. Use it for what comes after a wait:
    * `ask(key).map(answer => state.update(answer))(ctx.executionContext)`. Once the call has ended,
    * callbacks have no key.
    */
  def executionContext: ExecutionContext
}

/** What is known of the timer that fires, where its call may wait. */
trait AsyncOnTimerContext[K] extends AsyncContext[K] with OnTimerContext[K]

/** A function of elements with keys that waits for something, such as a service's answer, with
  * state and timers for each key.
  *
  * While the element of one key waits, elements of other keys are processed, up to a capacity. The
  * elements of a key come one after the other: each sees the state that the one before it left. A
  * call ends when its Future does. States, the context and outputs can be used in the call itself
  * and in callbacks on `ctx.executionContext`; elsewhere a [[KeystateException]] is thrown,
  * `KEYSTATE_NO_CURRENT_KEY` or `KEYSTATE_NOT_IN_CALL`. An iterator over a state is to be used
  * before the next wait.
  */
abstract class AsyncKeyedProcessFunction[K, IN, OUT] extends RichFunction {

  /** What `processElement` is told. */
  type Context = AsyncContext[K]

  /** What `onTimer` is told. */
  type OnTimerContext = AsyncOnTimerContext[K]

  /** Called for each element. Returns the results, which are read in the call. */
  def processElement(value: IN, ctx: Context): Future[IterableOnce[OUT]]

  /** Called for each timer that fires; a function that does not override it has no timers. Timers of
    * different keys overlap too.
    *
    * @param timestamp
    *   the time that the timer was set for
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext): Future[IterableOnce[OUT]] =
    Future.successful(Nil)

  /** Called when an element took longer than the timeout, with all its attempts. What they emitted is
    * dropped, and their callbacks have no key any more. If it is not overridden, the query fails.
    */
  def timeout(value: IN, ctx: Context): Future[IterableOnce[OUT]] =
    Future.failed(AsyncFunction.late("processElement"))
}

/** Asks something for each element: give it to [[keystate.stream.AsyncDataStream]]. It is called in
  * the function's thread, for elements of different keys while others wait. What is said of
  * [[AsyncKeyedProcessFunction]] holds here too.
  */
trait AsyncFunction[IN, OUT] extends Serializable {

  /** Begins to ask for an element, without waiting. The call ends when `resultFuture` is completed,
    * in any thread.
    */
  def asyncInvoke(input: IN, resultFuture: ResultFuture[OUT]): Unit

  /** Called when an element took longer than the timeout. To be completed like the other, with a
    * `resultFuture` of its own. If it is not overridden, the query fails.
    */
  def timeout(input: IN, resultFuture: ResultFuture[OUT]): Unit =
    resultFuture.completeExceptionally(AsyncFunction.late("asyncInvoke"))
}

private[keystate] object AsyncFunction {
  def late(method: String): Throwable =
    new TimeoutException(s"$method did not end within the timeout")
}

/** An [[AsyncFunction]] with a life cycle and, on a keyed stream, state. A state can be read and
  * written in `asyncInvoke` itself, and in what is given to `complete(() => results)`.
  */
abstract class RichAsyncFunction[IN, OUT] extends RichFunction with AsyncFunction[IN, OUT]

/** Takes the outcome of an element's call, from any thread. The first one counts. */
trait ResultFuture[OUT] {

  /** Ends the call with these results. */
  def complete(result: Iterable[OUT]): Unit

  /** Ends the call with results that are made in the function's thread, where states of the
    * element's key can be used.
    */
  def complete(result: () => Iterable[OUT]): Unit

  /** Ends the call with an error, which fails the query unless the element is tried again. */
  def completeExceptionally(error: Throwable): Unit
}
