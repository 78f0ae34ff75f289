package keystate.stream

import java.time.Duration

import org.apache.spark.sql.{Column, DataFrame, Dataset}

import keystate.errors.KeystateErrors
import keystate.windows.{
  AggregateFold, Contents, Evictor, FixedWindows, Fold, FoldedContents, FoldedSessions,
  ListedContents, ListedSessions, MergingWindowAssigner, ProcessWindowFunction, ReduceFold,
  SessionWindows, Trigger, Window, WindowAssigner, WindowCalls, WindowFunction, WindowsFunction
}
import keystate.{
  AggregateFunction, KeyedProcessFunction, OutputTag, ReduceFunction, TypeInformation
}
import org.apache.spark.sql.keystate.jvm.ColumnWindows

/** A keyed Dataset whose elements are grouped into windows; made by `window` and `countWindow`.
  * `trigger`, `evictor`, `allowedLateness` and `sideOutputLateData` return a changed copy.
  *
  * Event-time windows need a watermark on a stream, and on a batch Dataset the name of the event
  * time column; else `KEYSTATE_NO_WATERMARK`. An element without event time fails the query.
  */
sealed abstract class Windowed[T, W <: Window] private[keystate] (
    stream: KeyedRowStream[T],
    windows: Windowing[T, W]
) {
  protected type Self <: Windowed[T, W]
  protected def changed(windows: Windowing[T, W]): Self

  /** Sets the trigger that decides when windows fire, instead of the assigner's default. */
  def trigger(trigger: Trigger[T, W]): Self = changed(windows.copy(trigger = trigger))

  /** Sets an evictor, which removes elements from windows that fire. All elements of a window are
    * then kept.
    */
  def evictor(evictor: Evictor[T, W]): Self = changed(windows.copy(evictor = Some(evictor)))

  /** Keeps a window for this long after its end, for late elements; for event-time windows. */
  def allowedLateness(time: Duration): Self = {
    if (time.isNegative)
      throw KeystateErrors.declaration(s"The allowed lateness can't be negative: $time.")
    changed(windows.copy(lateness = time.toMillis))
  }

  /** Emits an element that is too late for all of its windows to a side output. Without it such
    * elements are dropped, and counted in the metric `numLateRecordsDropped`.
    */
  def sideOutputLateData(tag: OutputTag[T]): Self = changed(windows.copy(lateOutput = Some(tag)))

  /** Reduces the elements of a window, two at a time, as they arrive. */
  def reduce(function: ReduceFunction[T]): Dataset[T] =
    run(None, Some(reducing(function)), TypeInformation.row)(stream.inputType)

  /** Aggregates the elements of a window as they arrive. */
  def aggregate[ACC: TypeInformation, OUT: TypeInformation](
      function: AggregateFunction[T, ACC, OUT]
  ): Dataset[OUT] = run(None, Some(aggregating(function)), TypeInformation.row)

  /** Aggregates the elements of a window by Spark's aggregate functions, such as `sum($"amount")`. The
    * result has the key columns, `window_start`, `window_end` and a column for each aggregate. For
    * tumbling and sliding windows and sessions of one gap, with the default trigger; else
    * `KEYSTATE_DECLARATION`. `first` and `last` go by event time, if the windows do.
    */
  def aggregate(aggregate: Column, more: Column*): DataFrame =
    stream.aggregated(aggregate +: more, Some(windows.ofColumns), windows.eventTime)

  private def hasWatermark = stream.data.schema.exists(_.metadata.contains(Windowed.Delay))

  protected def reducing(function: ReduceFunction[T]): Fold =
    new ReduceFold(function.asInstanceOf[ReduceFunction[Any]], stream.inputType)

  protected def aggregating[ACC](function: AggregateFunction[T, ACC, _])(implicit
      accumulator: TypeInformation[ACC]
  ): Fold =
    new AggregateFold(function.asInstanceOf[AggregateFunction[Any, Any, Any]], accumulator)

  protected def run[OUT](function: Option[AnyRef], fold: Option[Fold], keyType: TypeInformation[_])(
      implicit out: TypeInformation[OUT]
  ): Dataset[OUT] = {
    if (stream.settings.late.nonEmpty)
      throw KeystateErrors.declaration(
        "lateOutput has no meaning for windows, which take late rows: use sideOutputLateData."
      )
    val byEventTime = windows.assigner.isEventTime
    if (byEventTime && windows.eventTime.isEmpty && !hasWatermark)
      throw KeystateErrors.windowsWithoutWatermark(windows.assigner.getClass.getSimpleName)
    val timed = if (byEventTime) stream.timeMode("event_time") else stream
    val operator = windows.operator(function, fold, stream.inputType)
    timed.run(operator, Some(keyType), out, eventTime = windows.eventTime)
  }
}

private object Windowed {

  /** Spark's key for a watermark's delay, in the metadata of the column that the watermark is
    * defined on.
    */
  val Delay = "spark.watermarkDelayMs"
}

/** The settings of windows. */
private[keystate] final case class Windowing[T, W <: Window](
    assigner: WindowAssigner[T, W],
    eventTime: Option[String],
    trigger: Trigger[T, W],
    evictor: Option[Evictor[T, W]] = None,
    lateness: Long = 0,
    lateOutput: Option[OutputTag[T]] = None
) {

  /** A function of elements and timers that implements these windows. */
  def operator(
      function: Option[AnyRef],
      fold: Option[Fold],
      elementType: TypeInformation[T]
  ): KeyedProcessFunction[Any, Any, Any] = {
    if (assigner.isInstanceOf[MergingWindowAssigner[_, _]] && !trigger.canMerge)
      throw KeystateErrors.declaration(
        s"${trigger.getClass.getSimpleName} can't be used where windows are merged, as sessions " +
          "are: it has no onMerge."
      )
    val late = lateOutput.asInstanceOf[Option[OutputTag[Any]]]
    new WindowsFunction(
      assigner.asInstanceOf[WindowAssigner[Any, Window]],
      trigger.asInstanceOf[Trigger[Any, Window]],
      evictor.asInstanceOf[Option[Evictor[Any, Window]]],
      lateness,
      contents(fold.filter(_ => evictor.isEmpty), elementType),
      new WindowCalls(function),
      fold,
      late
    )
  }

  /** These windows for aggregates of columns. */
  def ofColumns: ColumnWindows = {
    def refuse(what: String) = throw KeystateErrors.declaration(
      s"Aggregates of columns don't go with $what: give aggregate an AggregateFunction."
    )
    if (trigger.getClass != assigner.getDefaultTrigger.getClass)
      refuse(s"a ${trigger.getClass.getSimpleName}")
    if (evictor.nonEmpty) refuse("an evictor")
    val end = (assigner.isEventTime, lateness, lateOutput)
    (assigner: Any) match {
      case fixed: FixedWindows => ColumnWindows.fixed(fixed.size, fixed.slide, fixed.offset, end)
      case sessions: SessionWindows[_] =>
        val gap = sessions.fixedGap.getOrElse(refuse("sessions whose gap each element tells"))
        ColumnWindows.sessions(gap, end)
      case other => refuse(other.getClass.getSimpleName)
    }
  }

  private def contents(fold: Option[Fold], elementType: TypeInformation[T]): Contents = {
    val merges = assigner.isInstanceOf[MergingWindowAssigner[_, _]]
    fold match {
      case Some(own) => if (merges) new FoldedSessions(own) else new FoldedContents(own)
      case None => if (merges) new ListedSessions(elementType) else new ListedContents(elementType)
    }
  }
}

private[keystate] object Windowing {
  def apply[T, W <: Window](
      assigner: WindowAssigner[T, W],
      eventTime: Option[String]
  ): Windowing[T, W] = new Windowing(assigner, eventTime, assigner.getDefaultTrigger)
}

/** Windows of a Dataset that is keyed by a function. */
final class WindowedStream[T, K, W <: Window] private[keystate] (
    stream: KeyedStream[T, K],
    keyType: TypeInformation[K],
    windows: Windowing[T, W]
) extends Windowed[T, W](stream, windows) {
  override protected type Self = WindowedStream[T, K, W]
  override protected def changed(windows: Windowing[T, W]): Self =
    new WindowedStream(stream, keyType, windows)

  /** Reduces the elements of a window as they arrive; the window function takes the result. */
  def reduce[OUT: TypeInformation](
      function: ReduceFunction[T],
      windowFunction: ProcessWindowFunction[T, OUT, K, W]
  ): Dataset[OUT] = run(Some(windowFunction), Some(reducing(function)), keyType)

  /** Reduces the elements of a window as they arrive; the window function takes the result. */
  def reduce[OUT: TypeInformation](
      function: ReduceFunction[T],
      windowFunction: WindowFunction[T, OUT, K, W]
  ): Dataset[OUT] = run(Some(windowFunction), Some(reducing(function)), keyType)

  /** Aggregates the elements of a window as they arrive; the window function takes the result. */
  def aggregate[ACC: TypeInformation, V, OUT: TypeInformation](
      function: AggregateFunction[T, ACC, V],
      windowFunction: ProcessWindowFunction[V, OUT, K, W]
  ): Dataset[OUT] = run(Some(windowFunction), Some(aggregating(function)), keyType)

  /** Aggregates the elements of a window as they arrive; the window function takes the result. */
  def aggregate[ACC: TypeInformation, V, OUT: TypeInformation](
      function: AggregateFunction[T, ACC, V],
      windowFunction: WindowFunction[V, OUT, K, W]
  ): Dataset[OUT] = run(Some(windowFunction), Some(aggregating(function)), keyType)

  /** Applies a function to the elements of a window, which are all kept until then. */
  def process[OUT: TypeInformation](function: ProcessWindowFunction[T, OUT, K, W]): Dataset[OUT] =
    run(Some(function), None, keyType)

  /** Applies a function without a context to the elements of a window, which are kept until then.
    */
  def apply[OUT: TypeInformation](function: WindowFunction[T, OUT, K, W]): Dataset[OUT] =
    run(Some(function), None, keyType)
}

/** Windows of a Dataset that is keyed by columns. `K` is the type of the one key column; for
  * several key columns, a `Row`, tuple or case class.
  */
final class WindowedDataset[T, W <: Window] private[keystate] (
    stream: KeyedDataset[T],
    windows: Windowing[T, W]
) extends Windowed[T, W](stream, windows) {
  override protected type Self = WindowedDataset[T, W]
  override protected def changed(windows: Windowing[T, W]): Self =
    new WindowedDataset(stream, windows)

  /** Reduces the elements of a window as they arrive; the window function takes the result. */
  def reduce[K, OUT: TypeInformation](
      function: ReduceFunction[T],
      windowFunction: ProcessWindowFunction[T, OUT, K, W]
  )(implicit keyType: TypeInformation[K]): Dataset[OUT] =
    run(Some(windowFunction), Some(reducing(function)), keyType)

  /** Reduces the elements of a window as they arrive; the window function takes the result. */
  def reduce[K, OUT: TypeInformation](
      function: ReduceFunction[T],
      windowFunction: WindowFunction[T, OUT, K, W]
  )(implicit keyType: TypeInformation[K]): Dataset[OUT] =
    run(Some(windowFunction), Some(reducing(function)), keyType)

  /** Aggregates the elements of a window as they arrive; the window function takes the result. */
  def aggregate[K, ACC: TypeInformation, V, OUT: TypeInformation](
      function: AggregateFunction[T, ACC, V],
      windowFunction: ProcessWindowFunction[V, OUT, K, W]
  )(implicit keyType: TypeInformation[K]): Dataset[OUT] =
    run(Some(windowFunction), Some(aggregating(function)), keyType)

  /** Aggregates the elements of a window as they arrive; the window function takes the result. */
  def aggregate[K, ACC: TypeInformation, V, OUT: TypeInformation](
      function: AggregateFunction[T, ACC, V],
      windowFunction: WindowFunction[V, OUT, K, W]
  )(implicit keyType: TypeInformation[K]): Dataset[OUT] =
    run(Some(windowFunction), Some(aggregating(function)), keyType)

  /** Applies a function to the elements of a window, which are all kept until then. */
  def process[K, OUT: TypeInformation](function: ProcessWindowFunction[T, OUT, K, W])(implicit
      keyType: TypeInformation[K]
  ): Dataset[OUT] = run(Some(function), None, keyType)

  /** Applies a function without a context to the elements of a window, which are kept until then.
    */
  def apply[K, OUT: TypeInformation](function: WindowFunction[T, OUT, K, W])(implicit
      keyType: TypeInformation[K]
  ): Dataset[OUT] = run(Some(function), None, keyType)
}
