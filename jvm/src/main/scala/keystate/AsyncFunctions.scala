package keystate

import java.util.concurrent.TimeoutException

import scala.concurrent.{ExecutionContext, Future}

/** The context of an element in an async function. */
trait AsyncContext[K] extends ProcessContext[K] {

  /** Runs callbacks as a part of the call: in the function's thread, with the states, timers and
    * outputs of the call's key. Use it for code that runs after a wait:
    * `ask(key).map(answer => state.update(answer))(ctx.executionContext)`. Once the call has ended,
    * callbacks have no key.
    */
  def executionContext: ExecutionContext
}

/** The context of a firing timer in an async function. */
trait AsyncOnTimerContext[K] extends AsyncContext[K] with OnTimerContext[K]

/** A function of keyed elements that waits for something, such as a service's answer, with state
  * and timers for each key.
  *
  * While the element of one key waits, elements of other keys are processed, up to a capacity.
  * Elements of one key are processed one after the other: each sees the state that the previous one
  * left. A call ends when its Future completes. The call itself, and callbacks on
  * `ctx.executionContext`, can use states, the context and outputs; any other code gets a
  * [[KeystateException]], `KEYSTATE_NO_CURRENT_KEY` or `KEYSTATE_NOT_IN_CALL`. Finish using an
  * iterator over a state before the next wait.
  */
abstract class AsyncKeyedProcessFunction[K, IN, OUT] extends RichFunction {

  /** The context that `processElement` gets. */
  type Context = AsyncContext[K]

  /** The context that `onTimer` gets. */
  type OnTimerContext = AsyncOnTimerContext[K]

  /** Called for each element. Returns the results, which Keystate reads during the call. */
  def processElement(value: IN, ctx: Context): Future[IterableOnce[OUT]]

  /** Called for each timer that fires; a function that does not override it has no timers. Timers of
    * different keys overlap too.
    *
    * @param timestamp
    *   the time that the timer was set for
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext): Future[IterableOnce[OUT]] =
    Future.successful(Nil)

  /** Called when an element with all its attempts took longer than the timeout. The results of the
    * attempts are dropped, and their callbacks no longer have a key. Unless it is overridden, the
    * query fails.
    */
  def timeout(value: IN, ctx: Context): Future[IterableOnce[OUT]] =
    Future.failed(AsyncFunction.late("processElement"))
}

/** Asks an outside service for each element; pass it to [[keystate.stream.AsyncDataStream]].
  * Keystate calls it in the function's thread, and calls it for other keys while some elements
  * wait. The rules of [[AsyncKeyedProcessFunction]] apply here too.
  */
trait AsyncFunction[IN, OUT] extends Serializable {

  /** Starts a request for an element, without waiting. The call ends when any thread completes
    * `resultFuture`.
    */
  def asyncInvoke(input: IN, resultFuture: ResultFuture[OUT]): Unit

  /** Called when an element took longer than the timeout. It must complete its own `resultFuture`,
    * like `asyncInvoke`. Unless it is overridden, the query fails.
    */
  def timeout(input: IN, resultFuture: ResultFuture[OUT]): Unit =
    resultFuture.completeExceptionally(AsyncFunction.late("asyncInvoke"))
}

private[keystate] object AsyncFunction {
  def late(method: String): Throwable =
    new TimeoutException(s"$method did not end within the timeout")
}

/** An [[AsyncFunction]] with a life cycle and, on a keyed stream, state. `asyncInvoke` itself and
  * the function passed to `complete(() => results)` can read and write state.
  */
abstract class RichAsyncFunction[IN, OUT] extends RichFunction with AsyncFunction[IN, OUT]

/** Takes the outcome of an element's call, from any thread. Only the first outcome counts. */
trait ResultFuture[OUT] {

  /** Ends the call with these results. */
  def complete(result: Iterable[OUT]): Unit

  /** Ends the call with results that are computed in the function's thread, where states of the
    * element's key can be used.
    */
  def complete(result: () => Iterable[OUT]): Unit

  /** Ends the call with an error, which fails the query unless the element is tried again. */
  def completeExceptionally(error: Throwable): Unit
}
