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
import org.apache.spark.sql.keystate.jvm.{
  AsOfSettings, BroadcastData, ColumnWindows, InitialData, JoinAllSettings, KeyBy, ScalaBridge,
  SideOutputs
}

/** A Dataset, streaming or batch, grouped by key. Rows with the same key are processed one after
  * the other by the same subtask and share state. In a batch query state lasts as long as the
  * query.
  *
  * `timeMode`, `maxParallelism`, `orderBy`, `lateOutput`, `onError` and `name` return a new stream
  * with that setting.
  */
sealed abstract class KeyedRowStream[T] private[keystate] (data: Dataset[T], by: KeyBy[T])
    extends RowStream[T](data, by) {
  override protected type Self <: KeyedRowStream[T]

  /** The number of key groups, 1 to 32768, and so the highest number of subtasks that can ever
    * share the state. It can't change in a checkpoint. By default it is the checkpoint's number, or
    * the setting `spark.keystate.maxParallelism`, or 128 or more depending on the number of
    * partitions. A number that differs from the checkpoint's is `KEYSTATE_MAX_PARALLELISM_CHANGED`
    * when the query starts; a number out of range is `KEYSTATE_DECLARATION` here.
    */
  def maxParallelism(groups: Int): Self = {
    if (groups < 1 || groups > KeyGroups.MaxMaxParallelism)
      throw KeystateErrors.declaration(
        s"The max parallelism must be 1 to ${KeyGroups.MaxMaxParallelism}, not $groups."
      )
    withSettings(settings.copy(maxParallelism = Some(groups)))
  }

  /** Sorts the rows of a key by these columns, within a micro-batch and in a batch query. Rows that
    * are equal in them come in any order.
    */
  def orderBy(column: String, more: String*): Self =
    orderBy((column +: more).map(data.col): _*)

  /** Sorts the rows of a key by expressions over one row, such as `$"time".desc`, within a
    * micro-batch and in a batch query; other expressions are `KEYSTATE_DECLARATION`.
    */
  def orderBy(columns: Column*): Self = withSettings(settings.copy(order = columns))

  /** Combines the elements of a key, two at a time. A stream emits the result so far for every
    * element; a batch emits one result for each key, the last.
    */
  def reduce(function: ReduceFunction[T]): Dataset[T] =
    applied(new ReduceAdapter(function, inputType, rolling = data.isStreaming))(inputType)

  /** Aggregates the elements of a key by Spark's aggregate functions, such as `sum($"amount")`. The
    * functions have the names, types, nulls and overflow that they have in Spark SQL; DISTINCT is
    * `KEYSTATE_DECLARATION`. A stream emits a row for each key with elements in a micro-batch, a
    * batch one for each key: the key columns and a column for each aggregate. No element is late.
    */
  def aggregate(aggregate: Column, more: Column*): DataFrame =
    aggregated(aggregate +: more, None, None)

  /** Joins each element with the one of another stream, or of a table that is read once, that its key
    * had at its time. The result has this Dataset's columns, then the other one's, except for its
    * key and a time column of the same name. Of the other one's elements of one key and time the
    * last by its `orderBy` counts. Late elements go to the side output of `lateOutput`.
    *
    * @param leftOn
    *   the column with the time, a timestamp; for a stream that of the watermark. So is `rightOn`
    * @param direction
    *   `backward` for the last one at or before the time, `forward` for the first at or after it,
    *   `nearest` for the nearer one of both; streams need a tolerance for the last two
    * @param tolerance
    *   how far the times may be apart
    * @param suffix
    *   is added to the name of a column of the other one that this one has too
    * @param inner
    *   whether elements without a match are left out; else they have nulls
    * @param waits
    *   whether an element goes out when the query's watermark has passed all that it could be
    *   joined with; else at once, with what is there
    * @param deleted
    *   a boolean column of the other one: true says that its key has nothing from then on
    */
  def joinAsOf(
      other: KeyedRowStream[_],
      leftOn: String,
      rightOn: String,
      direction: String = "backward",
      tolerance: Option[Duration] = None,
      allowExactMatches: Boolean = true,
      suffix: String = "_right",
      inner: Boolean = false,
      waits: Boolean = true,
      deleted: Option[String] = None
  ): DataFrame = {
    val join = AsOfSettings(
      leftOn,
      rightOn,
      direction,
      tolerance,
      allowExactMatches,
      suffix,
      inner,
      waits,
      deleted
    )
    ScalaBridge.joinAsOf(keyedData(None), other.keyedData(None), join, settings.operator)
  }

  /** Joins the elements of a key with those of other streams, or of a table with those of tables,
    * whose times are near. Each element is kept once, whatever the number of streams. The result
    * has the key's columns, then the other columns of each stream.
    *
    * @param others
    *   the other streams
    * @param within
    *   the latest time of a result's elements is at most that much after the earliest one
    * @param on
    *   the column with the time of each stream's elements, this one's first, a timestamp; empty:
    *   that of the watermark. Tables need it
    * @param outer
    *   whether combinations go out too that lack some streams' elements, if no element could be
    *   added to them; else those go out that have one of each stream
    * @param suffixes
    *   for each stream, this one first, what is added to the names of columns that an earlier one
    *   has too; empty: `_2` for the second one, and so on
    * @param earliest
    *   the name of a column for a result's earliest time, by which operators behind it can go;
    *   otherwise it is the time of this stream's element
    * @param late
    *   a side output for elements behind the watermark, which are dropped otherwise; it has the
    *   result's columns
    */
  def joinAll(
      others: Seq[KeyedRowStream[_]],
      within: Duration,
      on: Seq[String] = Nil,
      outer: Boolean = false,
      suffixes: Seq[String] = Nil,
      earliest: Option[String] = None,
      late: Option[OutputTag[_]] = None
  ): DataFrame = {
    val all = this +: others
    def forEach(setting: String, told: Seq[String]): Unit =
      if (told.nonEmpty && told.size != all.size)
        throw KeystateErrors.declaration(
          s"$setting has one for each of the ${all.size} streams, not ${told.size}."
        )
    if (others.isEmpty) throw KeystateErrors.declaration("joinAll needs another stream.")
    if (within.isNegative)
      throw KeystateErrors.declaration(s"within can't be negative, but is $within.")
    if (all.exists(_.settings.late.nonEmpty))
      throw KeystateErrors.declaration("joinAll has its own late output: leave out lateOutput.")
    forEach("on", on)
    forEach("suffixes", suffixes)
    val join = JoinAllSettings(
      if (on.isEmpty) all.map(_ => None) else on.map(Some(_)),
      Left(within),
      outer,
      if (suffixes.nonEmpty) suffixes else "" +: others.indices.map(i => s"_${i + 2}"),
      earliest,
      late
    )
    ScalaBridge.joinAll(all.map(_.keyedData(None)), join, settings.operator)
  }

  /** Joins the elements of a key with those of another one by how far their times are apart, with
    * Flink's names: `a.keyed("id").intervalJoin(b.keyed("id")).between(lower, upper)`.
    */
  def intervalJoin(other: KeyedRowStream[_]): IntervalJoined = new IntervalJoined(this, other)

  /** Finds the matches of a pattern among the elements of each key, in event time: once the watermark
    * has passed them. Elements without a time are ignored; late ones go to the side output of
    * `lateOutput`.
    *
    * @param orderBy
    *   the column of the time, on a stream that of the watermark; then, after it, what orders the
    *   elements of a time
    */
  def pattern(pattern: Pattern, orderBy: Column*): PatternDataset[T] =
    new PatternDataset(keyedData(None).copy(order = orderBy), pattern, settings.operator)

  private[keystate] def aggregated(
      aggregates: Seq[Column],
      windows: Option[ColumnWindows],
      eventTime: Option[String]
  ): DataFrame = {
    if (settings.onError.nonEmpty || settings.late.nonEmpty)
      throw KeystateErrors.declaration(
        "Aggregates of columns have no dead letters and no lateOutput: leave out onError, and use " +
          "sideOutputLateData of windows."
      )
    val input = keyedData(None).copy(eventTime = eventTime)
    ScalaBridge.aggregate(input, aggregates, windows, settings.operator)
  }

  /** Maps each element to one result. The function gets the element and the key's state (None if
    * there is none), and returns the result and the state to keep (None to keep none). The state is
    * a value state named `state`.
    */
  def mapWithState[OUT: TypeInformation, S](
      function: (T, Option[S]) => (OUT, Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[OUT] =
    flatMapWithState[OUT, S] { (value: T, state: Option[S]) =>
      val (result, next) = function(value, state)
      (Iterator.single(result), next)
    }

  /** Maps each element to any number of results. The function gets the element and the key's state,
    * and returns the results and the state to keep: see `mapWithState`.
    */
  def flatMapWithState[OUT: TypeInformation, S](
      function: (T, Option[S]) => (IterableOnce[OUT], Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[OUT] =
    applied(new WithState(function, stateType))

  /** Keeps the elements that the function accepts. The function gets the element and the key's
    * state, and returns whether to keep the element, and the state: see `mapWithState`.
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

  /** Connects rows that every subtask gets. */
  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedKeyedStream[T, K, B] =
    new BroadcastConnectedKeyedStream(this, keyType, broadcast)

  /** Connects another keyed Dataset, for a function whose state and timers both share. */
  def connect[B](other: KeyedRowStream[B]): ConnectedKeyedStreams[T, B, K] =
    new ConnectedKeyedStreams(this, other, keyType)

  /** Groups the elements of a key into windows: see `keystate.windows`. */
  def window[W <: Window](assigner: WindowAssigner[T, W]): WindowedStream[T, K, W] =
    windowed(assigner, None)

  /** Groups the elements of a key of a batch Dataset, which has no watermark, into windows.
    *
    * @param eventTime
    *   the column with an element's event time, a timestamp; for a stream it must be the column
    *   that the watermark is defined on. Else `KEYSTATE_DECLARATION`
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

  /** Groups the elements of a key into consecutive windows of this many elements. */
  def countWindow(size: Long): WindowedStream[T, K, GlobalWindow] =
    window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(size)))

  /** Makes a window of a key's last `size` elements after every `slide` elements. */
  def countWindow(size: Int, slide: Long): WindowedStream[T, K, GlobalWindow] =
    window(GlobalWindows.create()).evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

  /** The function's results, as a Dataset that several such operators can follow.
    *
    * The function is serialised, and a copy of it is opened and closed on the driver. An error in
    * its declaration, its states or the settings is a [[keystate.KeystateException]], here or when
    * the query starts; mostly `KEYSTATE_DECLARATION`. When the function itself throws, the query
    * fails with `KEYSTATE_FUNCTION_FAILED`, whose cause is that exception.
    */
  def process[OUT](function: KeyedProcessFunction[K, T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, Some(keyType), out)

  /** The results of a function that starts with initial state.
    *
    * @param initialState
    *   a batch Dataset with keys of the same types, else `KEYSTATE_DECLARATION`.
    *   `processInitialState` gets its elements before the elements of the query's first
    *   micro-batch, and in a batch query before all others; the elements of one key in its
    *   `orderBy`. Once that micro-batch is committed, it is not read again.
    */
  def process[S, OUT](
      function: KeyedProcessFunction[K, T, OUT] with InitialStateFunction[K, S],
      initialState: KeyedRowStream[S]
  )(implicit out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out, Some(InitialData(initialState.keyedData(None))))

  /** The results of an async function. While calls for one key wait, calls for other keys go on. A
    * micro-batch ends when all its calls have ended.
    *
    * @param capacity
    *   how many elements of a subtask may be in flight, at least 1
    * @param timeout
    *   how long an element may take, with all its attempts; then the function's `timeout` is called
    *   for it. None: no limit
    * @param retry
    *   when an element is processed again; None: never
    * @param ordered
    *   whether the results of a subtask come in the order of its elements, and not in the order in
    *   which calls end
    */
  def process[OUT](
      function: AsyncKeyedProcessFunction[K, T, OUT],
      capacity: Int = AsyncDataStream.DefaultCapacity,
      timeout: Option[Duration] = None,
      retry: Option[AsyncRetryStrategy[OUT]] = None,
      ordered: Boolean = true
  )(implicit out: TypeInformation[OUT]): Dataset[OUT] =
    run(AsyncDataStream.adapter(function, capacity, timeout, retry, ordered), Some(keyType), out)

  /** The results of a function that gets many elements in one call. */
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

  /** Connects rows that every subtask gets. */
  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedKeyedDataset[T, B] =
    new BroadcastConnectedKeyedDataset(this, broadcast)

  /** Connects another keyed Dataset, for a function whose state and timers both share. */
  def connect[B](other: KeyedRowStream[B]): ConnectedKeyedDatasets[T, B] =
    new ConnectedKeyedDatasets(this, other)

  /** Groups the elements of a key into windows: see `keystate.windows`. */
  def window[W <: Window](assigner: WindowAssigner[T, W]): WindowedDataset[T, W] =
    windowed(assigner, None)

  /** Groups the elements of a key of a batch Dataset, which has no watermark, into windows.
    *
    * @param eventTime
    *   the column with an element's event time, a timestamp; for a stream it must be the column
    *   that the watermark is defined on. Else `KEYSTATE_DECLARATION`
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

  /** Groups the elements of a key into consecutive windows of this many elements. */
  def countWindow(size: Long): WindowedDataset[T, GlobalWindow] =
    window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(size)))

  /** Makes a window of a key's last `size` elements after every `slide` elements. */
  def countWindow(size: Int, slide: Long): WindowedDataset[T, GlobalWindow] =
    window(GlobalWindows.create()).evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

  /** The function's results. Fails as [[KeyedStream.process]] does.
    *
    * @tparam K
    *   the type of the one key column; for several key columns, a `Row`, tuple or case class
    */
  def process[K, OUT](
      function: KeyedProcessFunction[K, T, OUT]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out)

  /** The results of a function that starts with initial state; see [[KeyedStream.process[S,OUT]*]].
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

  /** The results of a function that gets many elements in one call. */
  def processBatches[K, OUT](
      function: KeyedBatchFunction[K, T, OUT]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, Some(keyType), out)
}

/** The methods that `import keystate._` adds to a Dataset. Java makes one with `new`. */
final class KeyedOps[T](data: Dataset[T]) {

  /** The results that the function emitted with `ctx.output(tag, result)`. A query that reads them
    * runs the function. Call it on the Dataset that `process` returned, else
    * `KEYSTATE_DECLARATION`.
    */
  def getSideOutput[S](tag: OutputTag[S]): Dataset[S] =
    SideOutputs.only(withSideOutputs(tag), tag)

  /** These results and side outputs in one DataFrame, from one run of the function: a struct column
    * `main`, and one for each tag, named like the tag. In each row exactly one of them is not null.
    */
  def withSideOutputs(tags: OutputTag[_]*): DataFrame = SideOutputs.all(data, tags)

  /** Writes these results and side outputs in one streaming query, from one run of the function.
    * The functions are called for each micro-batch with its id, as in `foreachBatch`. When a
    * micro-batch is run again, they are called again with the same rows.
    */
  def writeOutputs(main: (Dataset[T], Long) => Unit)(side: SideWrite[_]*): DataStreamWriter[_] =
    SideOutputs.write(data, Some(main), side)

  /** What SQL's `MATCH_RECOGNIZE (...)` makes of the Dataset; the text is what is in its brackets.
    * Text that makes no sense is `KEYSTATE_DECLARATION`.
    */
  def matchRecognize(text: String): DataFrame = ScalaBridge.matchRecognize(data, text)

  /** The Dataset's rows without keys, and so without keyed state and timers. */
  def stream: DataStream[T] = new DataStream(data)

  /** Broadcasts the Dataset's rows to every subtask of the operator that it is connected to. The
    * operator keeps results of these rows in states of the descriptors, of which there must be at
    * least one. A batch Dataset can be broadcast to a stream: its rows are broadcast once, in the
    * first micro-batch in which the operator has the Dataset.
    */
  def broadcast(descriptors: MapStateDescriptor[_, _]*): BroadcastStream[T] =
    new BroadcastStream(BroadcastData(data, descriptors))

  /** Groups by named columns. Key columns need a type with an order, else `KEYSTATE_KEY_TYPE`. */
  def keyed(column: String, more: String*): KeyedDataset[T] =
    keyed((column +: more).map(data.col): _*)

  /** Groups by columns, or expressions over one row; else `KEYSTATE_KEY_NOT_A_COLUMN`. */
  def keyed(columns: Column*): KeyedDataset[T] =
    new KeyedDataset(data, KeyBy.Columns[T](columns))

  /** Groups by the result of a function: by the fields of a case class or tuple, else by one column
    * named `key`. The result needs a type with an order, else `KEYSTATE_KEY_TYPE`.
    */
  def keyBy[K](function: T => K)(implicit keyType: TypeInformation[K]): KeyedStream[T, K] =
    new KeyedStream(data, KeyBy.Function(function, keyType.encoder), keyType)
}
