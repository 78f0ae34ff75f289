package keystate.stream

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{Column, Dataset}

import keystate.errors.KeystateErrors
import keystate.sinks.{CommittingFunction, TwoPhaseCommitSink}
import keystate.{
  Collector, DeadLetters, FilterFunction, FlatMapFunction, MapFunction, OutputTag, ProcessFunction,
  RichFunction, SinkFunction, TypeInformation
}
import org.apache.spark.sql.keystate.jvm.{
  KeyBy, KeyedData, OperatorSettings, ScalaBridge, SecondInputData
}

/** A Dataset whose rows go to the subtasks of an operator. Functions can be rich ones
  * ([[keystate.RichMapFunction]] and so on), with a life cycle and state, or plain ones.
  * [[KeyedStream.process]] lists the errors.
  */
abstract class RowStream[T] private[keystate] (
    private[keystate] val data: Dataset[T],
    by: KeyBy[T]
) {
  protected type Self <: RowStream[T]
  private[keystate] def settings: StreamSettings
  protected def withSettings(settings: StreamSettings): Self

  /** The operator's name, used in messages and as the function's task name. */
  def name(name: String): Self = withSettings(settings.copy(name = Some(name)))

  /** `"event_time"`, which needs a watermark on the input (`KEYSTATE_NO_WATERMARK`),
    * `"processing_time"`, `"none"`, the default without keys, or `"auto"`, the default with keys:
    * event time when the input has a watermark, else none. Any other value is
    * `KEYSTATE_DECLARATION`. In event time, rows behind the watermark are dropped, as by Spark's
    * own stateful operators; Flink passes them to the function. The time mode can't change in a
    * checkpoint.
    */
  def timeMode(mode: String): Self = withSettings(settings.copy(timeMode = mode))

  /** Sends rows behind the watermark to this side output instead of dropping them, in queries that
    * read it. The tag has the columns of this Dataset, else `KEYSTATE_DECLARATION`.
    */
  def lateOutput(tag: OutputTag[T]): Self = withSettings(settings.copy(late = Some(tag)))

  /** Sends an element or timer whose call fails to a side output, and undoes the effects of the
    * call, instead of failing the query. An error in `open`, in initial state or for a broadcast
    * element still fails the query. For two connected streams the setting of the first applies. If
    * a window's function fails, the window goes on as if the function had emitted nothing. After an
    * error, a batch function is called for halves of the batch, until an element fails alone. The
    * setting is `KEYSTATE_DECLARATION` for sinks, for async functions with operator state, and for
    * a tag of other rows.
    */
  def onError(deadLetters: DeadLetters[_]): Self = withSettings(
    settings.copy(onError = Some(deadLetters))
  )

  /** Maps each element to any number of results. */
  def flatMap[OUT: TypeInformation](function: FlatMapFunction[T, OUT]): Dataset[OUT] =
    applied(new FlatMapAdapter(function))

  /** Maps each element to any number of results, by a function without state. */
  def flatMap[OUT: TypeInformation](function: T => IterableOnce[OUT]): Dataset[OUT] =
    flatMap[OUT](new FlatMapFunction[T, OUT] {
      override def flatMap(value: T, out: Collector[OUT]): Unit =
        function(value).iterator.foreach(out.collect)
    })

  /** Maps each element to one result. */
  def map[OUT: TypeInformation](function: MapFunction[T, OUT]): Dataset[OUT] =
    applied(new MapAdapter(function))

  /** Keeps the elements for which the function returns true. */
  def filter(function: FilterFunction[T]): Dataset[T] =
    applied(new FilterAdapter(function))(inputType)

  /** Writes to a sink, which can also be a [[keystate.CheckpointedFunction]] or
    * [[keystate.ListCheckpointed]]. Start the returned writer: it needs a `checkpointLocation`, and
    * may have a trigger. A batch Dataset has no sink (`KEYSTATE_DECLARATION`): use its `write`.
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

  /** Writes to a sink that prepares with each micro-batch, and commits once that counts. */
  def addSink(sink: TwoPhaseCommitSink[T, _]): DataStreamWriter[_] =
    addSink(new CommittingFunction(sink))

  /** Writes to a function without state that takes each element. */
  def addSink(function: T => Unit): DataStreamWriter[_] = addSink(new SinkFunction[T] {
    override def invoke(value: T): Unit = function(value)
  })

  private[keystate] def inputType: TypeInformation[T] = TypeInformation.of(data.encoder)

  private[keystate] def applied[OUT](adapter: Adapter[T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(adapter, None, out)

  /** @param first
    *   the first sort column of a key's rows
    */
  private[keystate] def keyedData(first: Option[Column]): KeyedData[T] =
    KeyedData(data, by, first.toSeq ++ settings.order, settings.late)

  /** @param eventTime
    *   the column with the event time; None: the column of the watermark
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

/** The settings of an operator.
  *
  * @param maxParallelism
  *   None: the number of the checkpoint or the session
  * @param order
  *   the sort columns of a key's rows; empty for no order
  * @param late
  *   the side output of late rows; None if they are dropped
  * @param onError
  *   the policy for a row whose call fails; None: the query fails
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

/** A Dataset without keys, and so without keyed state and timers; made by `data.stream`. A hash of
  * all columns spreads the rows of a stream over the subtasks, in the same way when a task is run
  * again; so equal rows go to one subtask. The rows of a batch Dataset stay in their partitions.
  */
final class DataStream[T] private[keystate] (
    data: Dataset[T],
    private[keystate] val settings: StreamSettings = StreamSettings(timeMode = "none")
) extends RowStream[T](data, KeyBy.Columns(Nil)) {
  override protected type Self = DataStream[T]
  override protected def withSettings(settings: StreamSettings): DataStream[T] =
    new DataStream(data, settings)

  /** Connects rows that every subtask gets. */
  def connect[B](broadcast: BroadcastStream[B]): BroadcastConnectedStream[T, B] =
    new BroadcastConnectedStream(this, broadcast)

  /** The function's results. Fails as [[KeyedStream.process]] does. */
  def process[OUT](function: ProcessFunction[T, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, None, out)
}
