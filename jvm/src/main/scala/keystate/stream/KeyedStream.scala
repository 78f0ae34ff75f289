package keystate.stream

import java.time.Duration

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{Column, DataFrame, Dataset}

import keystate.errors.KeystateErrors
import keystate.keygroup.KeyGroups
import keystate.windows.{
  CountEvictor, CountTrigger, GlobalWindow, GlobalWindows, PurgingTrigger, Window, WindowAssigner
}
import keystate.{
  AsyncKeyedProcessFunction, AsyncRetryStrategy, InitialStateFunction, KeyedBatchFunction,
  KeyedProcessFunction, MapStateDescriptor, OutputTag, ReduceFunction, SideWrite, TypeInformation
}
import org.apache.spark.sql.keystate.jvm.{BroadcastData, InitialData, KeyBy, SideOutputs}

/** A Dataset, streaming or batch, grouped by key. Rows with the same key are processed one after
  * the other by the same subtask and share state. In a batch query state lasts as long as the
  * query.
  *
  * `timeMode`, `maxParallelism`, `orderBy`, `lateOutput`, `onError` and `name` return a new stream with that
  * setting.
  */
sealed abstract class KeyedRowStream[T] private[keystate] (data: Dataset[T], by: KeyBy[T])
    extends RowStream[T](data, by) {
  override protected type Self <: KeyedRowStream[T]

  /** The number of key groups, 1 to 32768: the most subtasks that the state can ever be spread
    * over. Fixed for a checkpoint's life. Unset it is what the checkpoint has, or the setting
    * `spark.keystate.maxParallelism`, or 128 or more by the number of partitions. Another number
    * than the checkpoint's is `KEYSTATE_MAX_PARALLELISM_CHANGED` when the query starts, one out of
    * range `KEYSTATE_DECLARATION` here.
    */
  def maxParallelism(groups: Int): Self = {
    if (groups < 1 || groups > KeyGroups.MaxMaxParallelism)
      throw KeystateErrors.declaration(
        s"The max parallelism must be 1 to ${KeyGroups.MaxMaxParallelism}, not $groups."
      )
    withSettings(settings.copy(maxParallelism = Some(groups)))
  }

  /** The rows of a key come sorted by these columns within a micro-batch, and in a batch query. Rows
    * that are equal in them come in any order.
    */
  def orderBy(column: String, more: String*): Self =
    orderBy((column +: more).map(data.col): _*)

  /** The rows of a key come sorted by expressions over one row, such as `$"time".desc`, within a
    * micro-batch, and in a batch query; other expressions are `KEYSTATE_DECLARATION`.
    */
  def orderBy(columns: Column*): Self = withSettings(settings.copy(order = columns))

  /** Combines the elements of a key, two at a time. A stream emits the result so far for every
    * element; a batch emits one result for each key, the last.
    */
  def reduce(function: ReduceFunction[T]): Dataset[T] =
    applied(new ReduceAdapter(function, inputType, rolling = data.isStreaming))(inputType)

  /** One result for each element. The function gets the element and the key's state, None if there
    * is none, and returns the result and the state to keep, None for none. It is a value state
    * named `state`.
    */
  def mapWithState[OUT: TypeInformation, S](
      function: (T, Option[S]) => (OUT, Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[OUT] =
    flatMapWithState[OUT, S] { (value: T, state: Option[S]) =>
      val (result, next) = function(value, state)
      (Iterator.single(result), next)
    }

  /** Any number of results for each element. The function gets the element and the key's state, and
    * returns the results and the state to keep: see `mapWithState`.
    */
  def flatMapWithState[OUT: TypeInformation, S](
      function: (T, Option[S]) => (IterableOnce[OUT], Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[OUT] =
    applied(new WithState(function, stateType))

  /** The elements that the function keeps. It gets the element and the key's state, and returns
    * whether to keep the element, and the state: see `mapWithState`.
    */
  def filterWithState[S](
      function: (T, Option[S]) => (Boolean, Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[T] =
    flatMapWithState[T, S] { (value: T, state: Option[S]) =>
      val (kept, next) = function(value, state)
      (Option.when(kept)(value), next)
    }(inputType, stateType)
}

/** A Dataset keyed by a function; made by `data.keyBy(function)`. */
final class KeyedStream[T, K] private[keystate] (
    data: Dataset[T],
    by: KeyBy[T],
    keyType: TypeInformation[K],
    private[keystate] val settings: StreamSettings = StreamSettings()
) extends KeyedRowStream[T](data, by) {
  override protected type Self = KeyedStream[T, K]
  override protected def withSettings(settings: StreamSettings): KeyedStream[T, K] =
    new KeyedStream(data, by, keyType, settings)

  /** Together with rows that every subtask gets. */
  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedKeyedStream[T, K, B] =
    new BroadcastConnectedKeyedStream(this, keyType, broadcast)

  /** Together with another keyed Dataset, for a function with state and timers that both share. */
  def connect[B](other: KeyedRowStream[B]): ConnectedKeyedStreams[T, B, K] =
    new ConnectedKeyedStreams(this, other, keyType)

  /** Groups the elements of a key into windows: see `keystate.windows`. */
  def window[W <: Window](assigner: WindowAssigner[T, W]): WindowedStream[T, K, W] =
    windowed(assigner, None)

  /** Groups the elements of a key of a batch Dataset, which has no watermark, into windows.
    *
    * @param eventTime
    *   the column with an element's event time, a timestamp; of a stream it is the one that the
    *   watermark is defined on. Else `KEYSTATE_DECLARATION`
    */
  def window[W <: Window](
      assigner: WindowAssigner[T, W],
      eventTime: String
  ): WindowedStream[T, K, W] =
    windowed(assigner, Some(eventTime))

  private def windowed[W <: Window](
      assigner: WindowAssigner[T, W],
      eventTime: Option[String]
  ): WindowedStream[T, K, W] =
    new WindowedStream(this, keyType, Windowing(assigner, eventTime))

  /** Groups the elements of a key into windows of so many elements, one after the other. */
  def countWindow(size: Long): WindowedStream[T, K, GlobalWindow] =
    window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(size)))

  /** Every `slide` elements of a key a window of the last `size`. */
  def countWindow(size: Int, slide: Long): WindowedStream[T, K, GlobalWindow] =
    window(GlobalWindows.create()).evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

  /** The function's results, as a Dataset that several such operators can follow.
    *
    * The function is serialised, and a copy of it opened and closed on the driver. What is wrong
    * with it, its states or the settings is a [[keystate.KeystateException]], here or when the
    * query starts; most of it `KEYSTATE_DECLARATION`. When the function itself throws, the query
    * fails with `KEYSTATE_FUNCTION_FAILED`, whose cause is that exception.
    */
  def process[OUT](function: KeyedProcessFunction[K, T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, Some(keyType), out)

  /** The results of a function that begins with initial state.
    *
    * @param initialState
    *   a batch Dataset with keys of the same types, else `KEYSTATE_DECLARATION`. Its elements are
    *   given to `processInitialState` before those of the query's first micro-batch, and in a batch
    *   query before all others; those of a key in its `orderBy`. Once that micro-batch is committed
    *   it is not read again.
    */
  def process[S, OUT](
      function: KeyedProcessFunction[K, T, OUT] with InitialStateFunction[K, S],
      initialState: KeyedRowStream[S]
  )(implicit out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out, Some(InitialData(initialState.keyedData(None))))

  /** The results of an async function, while whose calls for one key wait those for others go on. A
    * micro-batch ends when all its calls have ended.
    *
    * @param capacity
    *   how many elements of a subtask may be in flight, 1 at least
    * @param timeout
    *   how long an element may take, with all its attempts; then the function's `timeout` is called
    *   for it. None: as long as it likes
    * @param retry
    *   when an element is processed again; None: never
    * @param ordered
    *   whether the results of a subtask come in the order of its elements, and not as calls end
    */
  def process[OUT](
      function: AsyncKeyedProcessFunction[K, T, OUT],
      capacity: Int = AsyncDataStream.DefaultCapacity,
      timeout: Option[Duration] = None,
      retry: Option[AsyncRetryStrategy[OUT]] = None,
      ordered: Boolean = true
  )(implicit out: TypeInformation[OUT]): Dataset[OUT] =
    run(AsyncDataStream.adapter(function, capacity, timeout, retry, ordered), Some(keyType), out)

  /** The results of a function of many elements at once. */
  def processBatches[OUT](function: KeyedBatchFunction[K, T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, Some(keyType), out)
}

/** A Dataset keyed by columns; made by `data.keyed(columns)`. */
final class KeyedDataset[T] private[keystate] (
    data: Dataset[T],
    by: KeyBy[T],
    private[keystate] val settings: StreamSettings = StreamSettings()
) extends KeyedRowStream[T](data, by) {
  override protected type Self = KeyedDataset[T]
  override protected def withSettings(settings: StreamSettings): KeyedDataset[T] =
    new KeyedDataset(data, by, settings)

  /** Together with rows that every subtask gets. */
  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedKeyedDataset[T, B] =
    new BroadcastConnectedKeyedDataset(this, broadcast)

  /** Together with another keyed Dataset, for a function with state and timers that both share. */
  def connect[B](other: KeyedRowStream[B]): ConnectedKeyedDatasets[T, B] =
    new ConnectedKeyedDatasets(this, other)

  /** Groups the elements of a key into windows: see `keystate.windows`. */
  def window[W <: Window](assigner: WindowAssigner[T, W]): WindowedDataset[T, W] =
    windowed(assigner, None)

  /** Groups the elements of a key of a batch Dataset, which has no watermark, into windows.
    *
    * @param eventTime
    *   the column with an element's event time, a timestamp; of a stream it is the one that the
    *   watermark is defined on. Else `KEYSTATE_DECLARATION`
    */
  def window[W <: Window](
      assigner: WindowAssigner[T, W],
      eventTime: String
  ): WindowedDataset[T, W] =
    windowed(assigner, Some(eventTime))

  private def windowed[W <: Window](
      assigner: WindowAssigner[T, W],
      eventTime: Option[String]
  ): WindowedDataset[T, W] = new WindowedDataset(this, Windowing(assigner, eventTime))

  /** Groups the elements of a key into windows of so many elements, one after the other. */
  def countWindow(size: Long): WindowedDataset[T, GlobalWindow] =
    window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(size)))

  /** Every `slide` elements of a key a window of the last `size`. */
  def countWindow(size: Int, slide: Long): WindowedDataset[T, GlobalWindow] =
    window(GlobalWindows.create()).evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

  /** The function's results. Fails as [[KeyedStream.process]] does.
    *
    * @tparam K
    *   the type of the one key column; of several, a `Row`, tuple or case class
    */
  def process[K, OUT](
      function: KeyedProcessFunction[K, T, OUT]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out)

  /** The results of a function that begins with initial state; see
    * [[KeyedStream.process[S,OUT]*]].
    */
  def process[K, S, OUT](
      function: KeyedProcessFunction[K, T, OUT] with InitialStateFunction[K, S],
      initialState: KeyedRowStream[S]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out, Some(InitialData(initialState.keyedData(None))))

  /** The results of an async function; see
    * [[KeyedStream.process[OUT](function:keystate.AsyncKeyedProcessFunction[K,T,OUT]*]].
    */
  def process[K, OUT](
      function: AsyncKeyedProcessFunction[K, T, OUT],
      capacity: Int = AsyncDataStream.DefaultCapacity,
      timeout: Option[Duration] = None,
      retry: Option[AsyncRetryStrategy[OUT]] = None,
      ordered: Boolean = true
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(AsyncDataStream.adapter(function, capacity, timeout, retry, ordered), Some(keyType), out)

  /** The results of a function of many elements at once. */
  def processBatches[K, OUT](
      function: KeyedBatchFunction[K, T, OUT]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out)
}

/** What `import keystate._` adds to a Dataset. Java makes one with `new`. */
final class KeyedOps[T](data: Dataset[T]) {

  /** What the function whose results this Dataset has emitted with `ctx.output(tag, result)`. A
    * query that reads it runs the function for it. To be called on what `process` returned, else
    * `KEYSTATE_DECLARATION`.
    */
  def getSideOutput[S](tag: OutputTag[S]): Dataset[S] =
    SideOutputs.only(withSideOutputs(tag), tag)

  /** These results and side outputs in one DataFrame, from one run of the function: a struct column
    * `main`, and one for each tag, by its name. In a row just one of them is not null.
    */
  def withSideOutputs(tags: OutputTag[_]*): DataFrame = SideOutputs.all(data, tags)

  /** Writes these results and side outputs in one streaming query, from one run of the function. The
    * functions are called for each micro-batch with its id, as by `foreachBatch`: again, with the
    * same rows, when a micro-batch is run again.
    */
  def writeOutputs(main: (Dataset[T], Long) => Unit)(side: SideWrite[_]*): DataStreamWriter[_] =
    SideOutputs.write(data, Some(main), side)

  /** Its rows without keys, and so without keyed state and timers. */
  def stream: DataStream[T] = new DataStream(data)

  /** Its rows for every subtask of the operator that it is connected to, which keeps in states of
    * these descriptors, one at least, what it makes of them. A batch Dataset can be broadcast to a
    * stream: its rows are broadcast once, in the first micro-batch that the operator has with it.
    */
  def broadcast(descriptors: MapStateDescriptor[_, _]*): BroadcastStream[T] =
    new BroadcastStream(BroadcastData(data, descriptors))

  /** Groups by columns, by their names. Key columns need a type with an order, else
    * `KEYSTATE_KEY_TYPE`.
    */
  def keyed(column: String, more: String*): KeyedDataset[T] =
    keyed((column +: more).map(data.col): _*)

  /** Groups by columns, or expressions over one row; else `KEYSTATE_KEY_NOT_A_COLUMN`. */
  def keyed(columns: Column*): KeyedDataset[T] =
    new KeyedDataset(data, KeyBy.Columns[T](columns))

  /** Groups by what a function returns: by the fields of a case class or tuple, else by one column
    * named `key`. It needs a type with an order, else `KEYSTATE_KEY_TYPE`.
    */
  def keyBy[K](function: T => K)(implicit keyType: TypeInformation[K]): KeyedStream[T, K] =
    new KeyedStream(data, KeyBy.Function(function, keyType.encoder), keyType)
}
