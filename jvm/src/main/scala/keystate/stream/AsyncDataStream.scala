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

/** Flink's way to apply an [[keystate.AsyncFunction]]: to a keyed stream, where it may have state
  * and elements of a key come one after the other, or to one without keys, where all overlap.
  *
  * In each method `timeout` is how long an element may take, with all its attempts; 0 is as long as
  * it likes. `capacity` is how many elements of a subtask may be in flight.
  */
object AsyncDataStream {
  final val DefaultCapacity = 100

  /** Results come as calls end. */
  def unorderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int = DefaultCapacity
  ): Dataset[OUT] = applied(input, function, timeout, timeUnit, capacity, None, ordered = false)

  /** Results come as calls of a plain function end. */
  def unorderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int
  )(function: (IN, ResultFuture[OUT]) => Unit): Dataset[OUT] =
    unorderedWait(input, plain(function), timeout, timeUnit, capacity)

  /** Results of a subtask come in the order of its elements. */
  def orderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int = DefaultCapacity
  ): Dataset[OUT] = applied(input, function, timeout, timeUnit, capacity, None, ordered = true)

  /** Results of a plain function come in the order of a subtask's elements. */
  def orderedWait[IN, OUT: TypeInformation](
      input: RowStream[IN],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int
  )(function: (IN, ResultFuture[OUT]) => Unit): Dataset[OUT] =
    orderedWait(input, plain(function), timeout, timeUnit, capacity)

  /** Results come as calls end; elements whose calls fail are tried again. */
  def unorderedWaitWithRetry[IN, OUT: TypeInformation](
      input: RowStream[IN],
      function: AsyncFunction[IN, OUT],
      timeout: Long,
      timeUnit: TimeUnit,
      capacity: Int,
      asyncRetryStrategy: AsyncRetryStrategy[OUT]
  ): Dataset[OUT] =
    applied(input, function, timeout, timeUnit, capacity, Some(asyncRetryStrategy), ordered = false)

  /** Results come in the order of a subtask's elements; those whose calls fail are tried again. */
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

  /** Makes a function with Futures of one that completes results. */
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
