package keystate.stream

import org.apache.spark.sql.{Column, Dataset}

import keystate.{KeyedProcessFunction, MapStateDescriptor, ReduceFunction, TypeInformation}
import org.apache.spark.sql.keystate.jvm.{BroadcastData, KeyBy}

/** A Dataset, streaming or batch, grouped by key. Rows with the same key are processed one after the
  * other by the same subtask and share state.
  */
sealed abstract class KeyedRowStream[T] private[keystate] (data: Dataset[T], by: KeyBy[T])
    extends RowStream[T](data, by) {
  override protected type Self <: KeyedRowStream[T]

  /** `"event_time"`, `"processing_time"`, `"none"`, or `"auto"`: event time when the input has a
    * watermark. In event time, rows behind the watermark are dropped, as by Spark's own stateful
    * operators.
    */
  def timeMode(mode: String): Self = withSettings(settings.copy(timeMode = mode))

  /** The number of key groups, the most subtasks that the state can ever be spread over. Fixed for a
    * checkpoint's life.
    */
  def maxParallelism(groups: Int): Self =
    withSettings(settings.copy(maxParallelism = Some(groups)))

  /** Combines the elements of a key, two at a time. A stream emits the result so far for every
    * element; a batch emits one a key, the last.
    */
  def reduce(function: ReduceFunction[T]): Dataset[T] = applied(
    if (data.isStreaming) new RollingReduce(function, inputType)
    else new LastReduce(function, inputType)
  )(inputType)

  /** One result for each element, and the state to keep for its key (None: none). */
  def mapWithState[OUT: TypeInformation, S](
      function: (T, Option[S]) => (OUT, Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[OUT] =
    flatMapWithState[OUT, S] { (value: T, state: Option[S]) =>
      val (result, next) = function(value, state)
      (Iterator.single(result), next)
    }

  /** Any number of results for each element, and the state to keep for its key. */
  def flatMapWithState[OUT: TypeInformation, S](
      function: (T, Option[S]) => (IterableOnce[OUT], Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[OUT] =
    applied(new WithState(function, stateType))

  /** Keeps the elements for which the function says so, and the state to keep for their key. */
  def filterWithState[S](
      function: (T, Option[S]) => (Boolean, Option[S])
  )(implicit stateType: TypeInformation[S]): Dataset[T] =
    flatMapWithState[T, S] { (value: T, state: Option[S]) =>
      val (kept, next) = function(value, state)
      (Option.when(kept)(value), next)
    }(inputType, stateType)
}

/** A Dataset keyed by a function. */
final class KeyedStream[T, K] private[keystate] (
    data: Dataset[T],
    by: KeyBy[T],
    keyType: TypeInformation[K],
    protected val settings: StreamSettings = StreamSettings()
) extends KeyedRowStream[T](data, by) {
  override protected type Self = KeyedStream[T, K]
  override protected def withSettings(settings: StreamSettings): KeyedStream[T, K] =
    new KeyedStream(data, by, keyType, settings)

  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedKeyedStream[T, K, B] =
    new BroadcastConnectedKeyedStream(this, keyType, broadcast)

  def process[OUT](function: KeyedProcessFunction[K, T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, Some(keyType), out)
}

/** A Dataset keyed by columns. */
final class KeyedDataset[T] private[keystate] (
    data: Dataset[T],
    by: KeyBy[T],
    protected val settings: StreamSettings = StreamSettings()
) extends KeyedRowStream[T](data, by) {
  override protected type Self = KeyedDataset[T]
  override protected def withSettings(settings: StreamSettings): KeyedDataset[T] =
    new KeyedDataset(data, by, settings)

  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedKeyedDataset[T, B] =
    new BroadcastConnectedKeyedDataset(this, broadcast)

  /** @tparam K
    *   the type of the one key column; of several, a `Row`, tuple or case class
    */
  def process[K, OUT](function: KeyedProcessFunction[K, T, OUT])(implicit
      keyType: TypeInformation[K],
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, Some(keyType), out)
}

/** What `import keystate._` adds to a Dataset. */
final class KeyedOps[T] private[keystate] (data: Dataset[T]) {

  /** Its rows without keys. */
  def stream: DataStream[T] = new DataStream(data)

  /** For all subtasks of the operator that it is connected to, which keep in states of these
    * descriptors what they make of it.
    */
  def broadcast(descriptors: MapStateDescriptor[_, _]*): BroadcastStream[T] =
    new BroadcastStream(BroadcastData(data, descriptors))

  /** Groups by columns. */
  def keyed(column: String, more: String*): KeyedDataset[T] =
    keyed((column +: more).map(data.col): _*)

  def keyed(columns: Column*): KeyedDataset[T] =
    new KeyedDataset(data, KeyBy.Columns[T](columns))

  /** Groups by what a function returns. One that is no case class is a column named `key`. */
  def keyBy[K](function: T => K)(implicit keyType: TypeInformation[K]): KeyedStream[T, K] =
    new KeyedStream(data, KeyBy.Function(function, keyType.encoder), keyType)
}
