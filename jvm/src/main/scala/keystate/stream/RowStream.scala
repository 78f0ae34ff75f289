package keystate.stream

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{Column, Dataset}

import keystate.errors.KeystateErrors
import keystate.{
  Collector, DeadLetters, FilterFunction, FlatMapFunction, MapFunction, OutputTag, ProcessFunction,
  RichFunction, SinkFunction, TypeInformation
}
import org.apache.spark.sql.keystate.jvm.{
  KeyBy, KeyedData, OperatorSettings, ScalaBridge, SecondInputData
}

/** A Dataset whose rows go to the subtasks of an operator. Functions can be rich ones
  * ([[keystate.RichMapFunction]] and so on), with a life cycle and state, or plain ones. What can
  * go wrong is told at [[KeyedStream.process]].
  */
abstract class RowStream[T] private[keystate] (
    private[keystate] val data: Dataset[T],
    by: KeyBy[T]
) {
  protected type Self <: RowStream[T]
  private[keystate] def settings: StreamSettings
  protected def withSettings(settings: StreamSettings): Self

  /** The operator's name, in messages and as the function's task name. */
  def name(name: String): Self = withSettings(settings.copy(name = Some(name)))

  /** `"event_time"`, which needs a watermark on the input (`KEYSTATE_NO_WATERMARK`),
    * `"processing_time"`, `"none"`, the default without keys, or `"auto"`, the default with keys:
    * event time when the input has a watermark, else none. Anything else is `KEYSTATE_DECLARATION`.
    * In event time rows behind the watermark are dropped, as by Spark's own stateful operators;
    * Flink hands them to the function. Fixed for a checkpoint's life.
    */
  def timeMode(mode: String): Self = withSettings(settings.copy(timeMode = mode))

  /** Rows behind the watermark go to this side output instead of being dropped, in queries that read
    * it. It has the columns of this Dataset, else `KEYSTATE_DECLARATION`.
    */
  def lateOutput(tag: OutputTag[T]): Self = withSettings(settings.copy(late = Some(tag)))

  /** An element or timer that the function fails on goes to a side output, where otherwise the query
    * fails, and what the function did for it is undone. An error of `open`, of initial state and of a
    * broadcast element fails the query all the same. Of two streams that are connected it is that of
    * the first. A window that its function fails on goes on as if that had emitted nothing. A
    * function of batches is called for halves after an error, until an element fails alone. For sinks,
    * and async functions with operator state, it is `KEYSTATE_DECLARATION`, as is a tag of other rows.
    */
  def onError(deadLetters: DeadLetters[_]): Self = withSettings(
    settings.copy(onError = Some(deadLetters))
  )

  /** Any number of results for each element. */
  def flatMap[OUT: TypeInformation](function: FlatMapFunction[T, OUT]): Dataset[OUT] =
    applied(new FlatMapAdapter(function))

  /** Any number of results for each element, of a function without state. */
  def flatMap[OUT: TypeInformation](function: T => IterableOnce[OUT]): Dataset[OUT] =
    flatMap[OUT](new FlatMapFunction[T, OUT] {
      override def flatMap(value: T, out: Collector[OUT]): Unit =
        function(value).iterator.foreach(out.collect)
    })

  /** One result for each element. */
  def map[OUT: TypeInformation](function: MapFunction[T, OUT]): Dataset[OUT] =
    applied(new MapAdapter(function))

  /** The elements for which the function is true. */
  def filter(function: FilterFunction[T]): Dataset[T] =
    applied(new FilterAdapter(function))(inputType)

  /** Ends in a sink, which can be a [[keystate.CheckpointedFunction]] or
    * [[keystate.ListCheckpointed]] too. What is returned is to be started: it needs a
    * `checkpointLocation`, and may be given a trigger. A batch Dataset has no sink
    * (`KEYSTATE_DECLARATION`): use its `write`.
    */
  def addSink(function: SinkFunction[T]): DataStreamWriter[_] = {
    if (!data.isStreaming)
      throw KeystateErrors.declaration(
        "addSink needs a stream; write a batch Dataset with data.write."
      )
    if (settings.onError.nonEmpty)
      throw KeystateErrors.declaration("There are no dead letters of a sink: leave out onError.")
    applied(new SinkAdapter(function)).writeStream.format("noop").outputMode("append")
  }

  /** Ends in a function without state that takes each element. */
  def addSink(function: T => Unit): DataStreamWriter[_] = addSink(new SinkFunction[T] {
    override def invoke(value: T): Unit = function(value)
  })

  private[keystate] def inputType: TypeInformation[T] = TypeInformation.of(data.encoder)

  private[keystate] def applied[OUT](adapter: Adapter[T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(adapter, None, out)

  /** @param first
    *   what the rows of a key are sorted by before anything else
    */
  private[keystate] def keyedData(first: Option[Column]): KeyedData[T] =
    KeyedData(data, by, first.toSeq ++ settings.order, settings.late)

  /** @param eventTime
    *   the column that has the event time; None if that is told by the watermark
    */
  private[keystate] def run[OUT](
      function: RichFunction,
      keyType: Option[TypeInformation[_]],
      out: TypeInformation[OUT],
      second: Option[SecondInputData] = None,
      eventTime: Option[String] = None
  ): Dataset[OUT] = ScalaBridge.process(
    keyedData(None).copy(eventTime = eventTime),
    second,
    function,
    keyType,
    out,
    settings.operator
  )
}

/** What a stream was told of its operator.
  *
  * @param maxParallelism
  *   None: what the checkpoint or the session says
  * @param order
  *   what the rows of a key are sorted by; none if in no order
  * @param late
  *   the side output of late rows; None if they are dropped
  * @param onError
  *   what becomes of a row that the function fails on; None: the query fails
  */
private[keystate] final case class StreamSettings(
    name: Option[String] = None,
    timeMode: String = "auto",
    maxParallelism: Option[Int] = None,
    order: Seq[Column] = Nil,
    late: Option[OutputTag[_]] = None,
    onError: Option[DeadLetters[_]] = None
) {
  def operator: OperatorSettings = OperatorSettings(name, timeMode, maxParallelism, onError)
}

/** A Dataset without keys, and so without keyed state and timers; made by `data.stream`. Rows of a
  * stream are spread over the subtasks by a hash of all their columns, the same when a task is run
  * again; so equal rows meet in one subtask. Those of a batch stay in their partitions.
  */
final class DataStream[T] private[keystate] (
    data: Dataset[T],
    private[keystate] val settings: StreamSettings = StreamSettings(timeMode = "none")
) extends RowStream[T](data, KeyBy.Columns(Nil)) {
  override protected type Self = DataStream[T]
  override protected def withSettings(settings: StreamSettings): DataStream[T] =
    new DataStream(data, settings)

  /** Together with rows that every subtask gets. */
  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedStream[T, B] =
    new BroadcastConnectedStream(this, broadcast)

  /** The function's results. Fails as [[KeyedStream.process]] does. */
  def process[OUT](function: ProcessFunction[T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, None, out)
}
