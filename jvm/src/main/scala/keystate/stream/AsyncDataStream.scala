package keystate.stream

import java.time.Duration
import java.util.concurrent.TimeUnit

import scala.concurrent.{Future, Promise}

import org.apache.spark.sql.Dataset

import keystate.{
  AsyncContext, AsyncFunction, AsyncKeyedProcessFunction, AsyncRetryStrategy, ResultFuture,
  RichFunction, RuntimeContext, TypeInformation
}
import org.apache.spark.sql.keystate.jvm.{AsyncAdapter, AsyncSettings, FunctionAdapter}

/** Flink's entry points for an [[keystate.AsyncFunction]]. On a keyed stream the function may have
  * state, and elements of a key are processed one after the other; on a stream without keys all
  * elements overlap.
  *
  * In each method `timeout` is how long an element may take, with all its attempts; 0 sets no
  * limit. `capacity` is how many elements of a subtask may be in flight.
  */
object AsyncDataStream {
  final val DefaultCapacity = 100

  /** Emits results in the order in which calls end. */
  def unorderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int = DefaultCapacity
  ): Dataset[OUT] = applied(input, function, timeout, timeUnit, capacity, None, ordered = false)

  /** Emits results in the order in which calls of a plain function end. */
  def unorderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int
  )(function: (IN, ResultFuture[OUT]) => Unit): Dataset[OUT] =
    unorderedWait(input, plain(function), timeout, timeUnit, capacity)

  /** Emits the results of a subtask in the order of its elements. */
  def orderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int = DefaultCapacity
  ): Dataset[OUT] = applied(input, function, timeout, timeUnit, capacity, None, ordered = true)

  /** Emits the results of a plain function in the order of a subtask's elements. */
  def orderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int
  )(function: (IN, ResultFuture[OUT]) => Unit): Dataset[OUT] =
    orderedWait(input, plain(function), timeout, timeUnit, capacity)

  /** Emits results in the order in which calls end, and retries elements whose calls fail. */
  def unorderedWaitWithRetry[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int,
      asyncRetryStrategy: AsyncRetryStrategy[OUT]
  ): Dataset[OUT] =
    applied(input, function, timeout, timeUnit, capacity, Some(asyncRetryStrategy), ordered = false)

  /** Emits results in the order of a subtask's elements, and retries elements whose calls fail. */
  def orderedWaitWithRetry[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int,
      asyncRetryStrategy: AsyncRetryStrategy[OUT]
  ): Dataset[OUT] =
    applied(input, function, timeout, timeUnit, capacity, Some(asyncRetryStrategy), ordered = true)

  private def plain[IN, OUT](function: (IN, ResultFuture[OUT]) => Unit): AsyncFunction[IN, OUT] =
    (input, resultFuture) => function(input, resultFuture)

  private def applied[IN, OUT](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int,
      retry: Option[AsyncRetryStrategy[OUT]],
      ordered: Boolean
  )(implicit out: TypeInformation[OUT]): Dataset[OUT] = {
    val limit = Option.when(timeout != 0)(Duration.of(timeout, timeUnit.toChronoUnit))
    input.run(adapter(new Invoked(function), capacity, limit, retry, ordered), None, out)
  }

  private[stream] def adapter(
      function: AsyncKeyedProcessFunction[_, _, _],
      capacity: Int,
      timeout: Option[Duration],
      retry: Option[AsyncRetryStrategy[_]],
      ordered: Boolean
  ): AsyncAdapter = new AsyncAdapter(
    function.asInstanceOf[AsyncKeyedProcessFunction[Any, Any, Any]],
    AsyncSettings(capacity, timeout, retry.map(_.asInstanceOf[AsyncRetryStrategy[Any]]), ordered)
  )

  /** Adapts a function that completes a ResultFuture to one that returns Futures. */
  private final class Invoked[IN, OUT](function: AsyncFunction[IN, OUT])
      extends AsyncKeyedProcessFunction[Any, IN, OUT]
      with FunctionAdapter {
    override def adapted: AnyRef = function
    override def open(context: RuntimeContext): Unit = RichFunction.open(function, context)
    override def close(): Unit = RichFunction.close(function)

    override def processElement(value: IN, ctx: Context): Future[IterableOnce[OUT]] =
      resultOf(ctx)(function.asyncInvoke(value, _))

    override def timeout(value: IN, ctx: Context): Future[IterableOnce[OUT]] =
      resultOf(ctx)(function.timeout(value, _))

    private def resultOf(
        ctx: AsyncContext[Any]
    )(begin: ResultFuture[OUT] => Unit): Future[IterableOnce[OUT]] = {
      val promise = Promise[() => Iterable[OUT]]()
      begin(new ResultFuture[OUT] {
        override def complete(result: Iterable[OUT]): Unit = complete(() => result)
        override def complete(result: () => Iterable[OUT]): Unit =
          promise.trySuccess(result): Unit
        override def completeExceptionally(error: Throwable): Unit =
          promise.tryFailure(error): Unit
      })
      promise.future.map(_.apply())(ctx.executionContext)
    }
  }
}
