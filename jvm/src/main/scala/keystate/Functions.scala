package keystate

/** Makes one result of each element. */
trait MapFunction[IN, OUT] extends Serializable {

  /** The result for an element. */
  def map(value: IN): OUT
}

/** Makes any number of results of each element. */
trait FlatMapFunction[IN, OUT] extends Serializable {

  /** Gives the results for an element to `out`. */
  def flatMap(value: IN, out: Collector[OUT]): Unit
}

/** Decides which elements stay. */
trait FilterFunction[T] extends Serializable {

  /** Whether the element stays. */
  def filter(value: T): Boolean
}

/** Combines two values into one of the same type. */
trait ReduceFunction[T] extends Serializable {

  /** The two as one. It may be either of them, changed.
    *
    * @param first
    *   the result so far, or the first value; not null
    * @param second
    *   the value that is added; not null
    */
  def reduce(first: T, second: T): T
}

/** Adds values to an accumulator, of which a result is made on demand. Only the accumulator is
  * stored.
  */
trait AggregateFunction[IN, ACC, OUT] extends Serializable {

  /** An accumulator of no values. A copy of it is used, so it may be the same object each time. */
  def createAccumulator(): ACC

  /** The accumulator with the value, which is not null. It may be `accumulator` itself, changed. */
  def add(value: IN, accumulator: ACC): ACC

  /** The result of what was added. null is no result: a window emits nothing then. */
  def getResult(accumulator: ACC): OUT

  /** Two accumulators as one. It is called when windows are merged, as sessions are. */
  def merge(first: ACC, second: ACC): ACC
}

/** Adds values to an accumulator, which is the result too. */
@deprecated("use AggregateFunction", "Flink 1.4")
trait FoldFunction[T, ACC] extends Serializable {

  /** The accumulator with the value, which is not null. It may be `accumulator` itself, changed. The
    * first accumulator of a key is a copy of the descriptor's initial value.
    */
  def fold(accumulator: ACC, value: T): ACC
}

/** Takes results. */
trait Collector[T] {

  /** Emits a result. It is copied at once, so the object may be used again. To be called within the
    * function's call and in its thread, else a [[KeystateException]] is thrown,
    * `KEYSTATE_NOT_IN_CALL`; `KEYSTATE_RESULT_TYPE` if the result does not fit its type.
    */
  def collect(result: T): Unit
}

/** A function with a life cycle and state.
  *
  * It is serialised on the driver and sent to each subtask: mark what `open` makes as `@transient`.
  * An instance serves one micro-batch after the other, in one thread; after a failure a new one
  * begins. `open` and `close` also run once on the driver, on a copy, to learn which states there
  * are. There a state can be had but not used.
  */
abstract class RichFunction extends Serializable {
  @transient private var context: RuntimeContext = _

  /** Called once for each instance, before its first element. Override either this or the other
    * one.
    */
  def open(context: RuntimeContext): Unit = open(new Configuration)

  /** Flink's older form of `open`; take states from [[getRuntimeContext]]. */
  def open(parameters: Configuration): Unit = ()

  /** Called when the subtask lets the instance go, not when its executor is killed. */
  def close(): Unit = ()

  /** What `open` is told.
    *
    * @throws java.lang.IllegalStateException
    *   before `open` and `initializeState`
    */
  def getRuntimeContext: RuntimeContext = {
    if (context == null) throw new IllegalStateException("there is no context before open")
    context
  }

  /** Called by Keystate before `open`. */
  def setRuntimeContext(context: RuntimeContext): Unit = this.context = context
}

private[keystate] object RichFunction {

  /** Opens a function if it has a life cycle. */
  def open(function: AnyRef, context: RuntimeContext): Unit = function match {
    case rich: RichFunction =>
      rich.setRuntimeContext(context)
      rich.open(context)
    case _ =>
  }

  /** Closes a function if it has a life cycle. */
  def close(function: AnyRef): Unit = function match {
    case rich: RichFunction => rich.close()
    case _ =>
  }
}

/** A [[MapFunction]] with a life cycle and state. */
abstract class RichMapFunction[IN, OUT] extends RichFunction with MapFunction[IN, OUT]

/** A [[FlatMapFunction]] with a life cycle and state. */
abstract class RichFlatMapFunction[IN, OUT] extends RichFunction with FlatMapFunction[IN, OUT]

/** A [[FilterFunction]] with a life cycle and state. */
abstract class RichFilterFunction[T] extends RichFunction with FilterFunction[T]

/** A [[ReduceFunction]] with a life cycle and state. */
abstract class RichReduceFunction[T] extends RichFunction with ReduceFunction[T]

/** The operator's clocks and the current key's timers. All times are milliseconds since the epoch.
  *
  * The clocks stand still within a micro-batch. A timer fires in the first micro-batch whose clock
  * has reached its time, after that batch's elements; that may be the one that sets it. A key's timers
  * fire in order of time. One that a timer sets at or before its own time waits for the next
  * micro-batch. In a batch query all timers fire when the input has ended, and those that they set as
  * well.
  *
  * A key has one timer for each clock and time: setting it twice is setting it once. Timers need a
  * key and a function that overrides `onTimer`, else setting or deleting one is a
  * [[KeystateException]], `KEYSTATE_DECLARATION`.
  */
trait TimerService {

  /** The micro-batch's time, which is the same when it is run again; in real-time mode the present
    * time; in a batch query, when that was planned. In ms since the epoch.
    */
  def currentProcessingTime(): Long

  /** The watermark that the micro-batch began with. `Long.MinValue` when the operator does not go
    * by event time, and in a batch query, where it is `Long.MaxValue` once the input has ended.
    */
  def currentWatermark(): Long

  /** Sets a timer for when the watermark reaches `time`. A stream needs a watermark for it, else a
    * [[KeystateException]] is thrown, `KEYSTATE_NO_WATERMARK`.
    */
  def registerEventTimeTimer(time: Long): Unit

  /** Sets a timer for when a micro-batch's time reaches `time`. */
  def registerProcessingTimeTimer(time: Long): Unit

  /** Deletes the event-time timer of this time, if there is one. It no longer fires in this
    * micro-batch either, unless it has already.
    */
  def deleteEventTimeTimer(time: Long): Unit

  /** Deletes the processing-time timer of this time, if there is one. It no longer fires in this
    * micro-batch either, unless it has already.
    */
  def deleteProcessingTimeTimer(time: Long): Unit
}

/** Which clock a timer goes by. */
sealed abstract class TimeDomain

object TimeDomain {

  /** The watermark. */
  case object EVENT_TIME extends TimeDomain

  /** The micro-batch's time. */
  case object PROCESSING_TIME extends TimeDomain
}

/** Emits to side outputs. */
trait SideOutputContext {

  /** Emits a result to a side output, which `data.getSideOutput(tag)` has; it is dropped if that is
    * not read. As for [[Collector.collect]], it is copied at once.
    */
  def output[T](tag: OutputTag[T], result: T): Unit
}

/** What is known of the element or timer at hand. To be used within the call that got it. */
trait ElementContext extends SideOutputContext {

  /** In milliseconds since the epoch, the timer's time or the element's event time. That is null
    * when the input has no watermark, or the element has null in the column that the watermark goes
    * by.
    */
  def timestamp(): java.lang.Long

  /** The clocks, and where there are keys the key's timers. */
  def timerService(): TimerService
}

/** What is known of an element with a key. */
trait ProcessContext[K] extends ElementContext {

  /** The key of the element or timer. */
  def getCurrentKey: K
}

/** What is known of the timer that fires. */
trait OnTimerContext[K] extends ProcessContext[K] {

  /** Which clock the timer went by. */
  def timeDomain(): TimeDomain
}

/** A function of elements with keys, with state and timers for each key. */
abstract class KeyedProcessFunction[K, IN, OUT] extends RichFunction {

  /** What `processElement` is told. */
  type Context = ProcessContext[K]

  /** What `onTimer` is told. */
  type OnTimerContext = keystate.OnTimerContext[K]

  /** Called for each element. Those of a key come one after the other. */
  def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers.
    *
    * @param timestamp
    *   the time that the timer was set for
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}

/** What a [[KeyedProcessFunction]] adds to begin with state that was computed elsewhere.
  *
  * @tparam S
  *   the elements of the initial state
  */
trait InitialStateFunction[K, S] {

  /** Called for each element of the initial state, with the states and timers of its key, before
    * any element of the stream. It emits nothing.
    *
    * @param ctx
    *   its `timestamp` is null, unless the Dataset has a watermark
    */
  def processInitialState(value: S, ctx: ProcessContext[K]): Unit
}

/** A function of elements without keys, and so without keyed state and timers. For operator state
  * it is a [[CheckpointedFunction]] too.
  */
abstract class ProcessFunction[IN, OUT] extends RichFunction {

  /** What `processElement` is told. */
  type Context = ElementContext

  /** Called for each element. */
  def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit
}

/** A function of many elements at once and the states of their keys. A state is read and written
  * once for a key, however many elements the key has in the batch. It has value states only, and no
  * timers.
  */
abstract class KeyedBatchFunction[K, IN, OUT] extends RichFunction {

  /** Called for a part of the elements of a micro-batch; how many at a time is not defined. The
    * elements of a key come in the same order as to [[KeyedProcessFunction.processElement]].
    *
    * @param ctx
    *   emits to side outputs
    */
  def processBatch(batch: KeyedBatch[K, IN], ctx: SideOutputContext, out: Collector[OUT]): Unit
}

/** Elements, and the states of their keys. To be used within the call that got it. */
trait KeyedBatch[K, IN] {

  /** The elements. */
  def elements: IndexedSeq[IN]

  /** The keys of the elements, each once. */
  def keys: IndexedSeq[K]

  /** For each element the index of its key in `keys`. */
  def keyOfElement: IndexedSeq[Int]

  /** The value of a state for each of `keys`; where a key has none, the default or null. */
  def values[T](state: ValueState[T]): IndexedSeq[T]

  /** Sets the value of a state for each of `keys`. Null clears it. Another number of values than of
    * keys is `KEYSTATE_DECLARATION`.
    */
  def update[T](state: ValueState[T], values: IterableOnce[T]): Unit
}
