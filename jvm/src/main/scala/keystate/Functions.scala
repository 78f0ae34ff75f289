package keystate

/** Maps each element to one result. */
trait MapFunction[IN, OUT] extends Serializable {

  /** The result for an element. */
  def map(value: IN): OUT
}

/** Maps each element to any number of results. */
trait FlatMapFunction[IN, OUT] extends Serializable {

  /** Passes the results for an element to `out`. */
  def flatMap(value: IN, out: Collector[OUT]): Unit
}

/** Decides which elements to keep. */
trait FilterFunction[T] extends Serializable {

  /** Whether to keep the element. */
  def filter(value: T): Boolean
}

/** Combines two values into one of the same type. */
trait ReduceFunction[T] extends Serializable {

  /** Combines the two. The result may be either of them, changed.
    *
    * @param first
    *   the result so far, or the first value; not null
    * @param second
    *   the next value; not null
    */
  def reduce(first: T, second: T): T
}

/** Adds values to an accumulator and computes a result from it on demand. Only the accumulator is
  * stored.
  */
trait AggregateFunction[IN, ACC, OUT] extends Serializable {

  /** An empty accumulator. Keystate uses a copy of it, so it may be the same object each time. */
  def createAccumulator(): ACC

  /** The accumulator including the value, which is not null. It may be `accumulator` itself,
    * changed.
    */
  def add(value: IN, accumulator: ACC): ACC

  /** The result of the values added so far. null means no result: a window then emits nothing. */
  def getResult(accumulator: ACC): OUT

  /** Combines two accumulators. Called when windows are merged, such as session windows. */
  def merge(first: ACC, second: ACC): ACC
}

/** Adds values to an accumulator that is also the result. */
@deprecated("use AggregateFunction", "Flink 1.4")
trait FoldFunction[T, ACC] extends Serializable {

  /** The accumulator including the value, which is not null. It may be `accumulator` itself,
    * changed. The first accumulator of a key is a copy of the descriptor's initial value.
    */
  def fold(accumulator: ACC, value: T): ACC
}

/** Collects results. */
trait Collector[T] {

  /** Emits a result. The result is copied immediately, so the object may be used again. Call it
    * only within the function's call and in its thread, else a [[KeystateException]] is thrown,
    * `KEYSTATE_NOT_IN_CALL`; `KEYSTATE_RESULT_TYPE` if the result does not fit its type.
    */
  def collect(result: T): Unit
}

/** A function with a life cycle and state.
  *
  * The function is serialised on the driver and sent to each subtask: mark fields that `open` sets
  * as `@transient`. An instance serves one micro-batch after the other, in one thread; a new
  * instance replaces it after a failure. `open` and `close` also run once on the driver, on a copy,
  * to find out which states there are. That copy can get states but not use them.
  */
abstract class RichFunction extends Serializable {
  @transient private var context: RuntimeContext = _

  /** Called once for each instance, before its first element. Override only one of the two `open`
    * methods.
    */
  def open(context: RuntimeContext): Unit = open(new Configuration)

  /** Flink's older form of `open`; get states from [[getRuntimeContext]]. */
  def open(parameters: Configuration): Unit = ()

  /** Called when the subtask drops the instance, but not when its executor is killed. */
  def close(): Unit = ()

  /** The context that `open` gets.
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
  * has reached the timer's time, after that micro-batch's elements; it may be the micro-batch that
  * sets the timer. A key's timers fire in order of time. If a timer sets another one at or before
  * its own time, that one waits for the next micro-batch. In a batch query all timers fire after
  * the input has ended, including the timers that timers set.
  *
  * A key has one timer for each clock and time: setting it twice has the effect of setting it once.
  * Timers need a key and a function that overrides `onTimer`, else setting or deleting one is a
  * [[KeystateException]], `KEYSTATE_DECLARATION`.
  */
trait TimerService {

  /** The micro-batch's time, which is the same when the micro-batch is run again; in real-time mode
    * the present time; in a batch query the time when the query was planned. In ms since the epoch.
    */
  def currentProcessingTime(): Long

  /** The watermark at the start of the micro-batch. `Long.MinValue` when the operator's time mode
    * is not event time. In a batch query it is `Long.MinValue`, then `Long.MaxValue` once the input
    * has ended.
    */
  def currentWatermark(): Long

  /** Sets a timer for when the watermark reaches `time`. The stream must have a watermark, else a
    * [[KeystateException]] is thrown, `KEYSTATE_NO_WATERMARK`.
    */
  def registerEventTimeTimer(time: Long): Unit

  /** Sets a timer for when a micro-batch's time reaches `time`. */
  def registerProcessingTimeTimer(time: Long): Unit

  /** Deletes the event-time timer of this time, if there is one. Unless it has already fired, it no
    * longer fires in this micro-batch either.
    */
  def deleteEventTimeTimer(time: Long): Unit

  /** Deletes the processing-time timer of this time, if there is one. Unless it has already fired,
    * it no longer fires in this micro-batch either.
    */
  def deleteProcessingTimeTimer(time: Long): Unit
}

/** The clock of a timer. */
sealed abstract class TimeDomain

object TimeDomain {

  /** The watermark. */
  case object EVENT_TIME extends TimeDomain

  /** The micro-batch's time. */
  case object PROCESSING_TIME extends TimeDomain
}

/** Emits to side outputs. */
trait SideOutputContext {

  /** Emits a result to a side output, which `data.getSideOutput(tag)` reads; if nothing reads it,
    * the result is dropped. The result is copied immediately, as in [[Collector.collect]].
    */
  def output[T](tag: OutputTag[T], result: T): Unit
}

/** The context of the current element or timer. Use it only within the call that got it. */
trait ElementContext extends SideOutputContext {

  /** The timer's time or the element's event time, in milliseconds since the epoch. The event time
    * is null when the input has no watermark, or when the watermark's column is null.
    */
  def timestamp(): java.lang.Long

  /** The clocks, and the key's timers if there are keys. */
  def timerService(): TimerService
}

/** The context of an element with a key. */
trait ProcessContext[K] extends ElementContext {

  /** The key of the element or timer. */
  def getCurrentKey: K
}

/** The context of a firing timer. */
trait OnTimerContext[K] extends ProcessContext[K] {

  /** The clock of the timer. */
  def timeDomain(): TimeDomain
}

/** A function of keyed elements, with state and timers for each key. */
abstract class KeyedProcessFunction[K, IN, OUT] extends RichFunction {

  /** The context that `processElement` gets. */
  type Context = ProcessContext[K]

  /** The context that `onTimer` gets. */
  type OnTimerContext = keystate.OnTimerContext[K]

  /** Called for each element. Elements of one key come one after the other. */
  def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers.
    *
    * @param timestamp
    *   the time that the timer was set for
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}

/** Lets a [[KeyedProcessFunction]] start with state that was computed elsewhere.
  *
  * @tparam S
  *   the elements of the initial state
  */
trait InitialStateFunction[K, S] {

  /** Called for each element of the initial state, with the states and timers of the element's key,
    * before any element of the stream. It emits nothing.
    *
    * @param ctx
    *   its `timestamp` is null, unless the Dataset has a watermark
    */
  def processInitialState(value: S, ctx: ProcessContext[K]): Unit
}

/** A function of elements without keys, and so without keyed state and timers. To have operator
  * state, extend [[CheckpointedFunction]] too.
  */
abstract class ProcessFunction[IN, OUT] extends RichFunction {

  /** The context that `processElement` gets. */
  type Context = ElementContext

  /** Called for each element. */
  def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit
}

/** A function that gets many elements and the states of their keys in one call. It reads and writes
  * a state once for each key, however many elements the key has in the batch. It has value states
  * only, and no timers.
  */
abstract class KeyedBatchFunction[K, IN, OUT] extends RichFunction {

  /** Called for a part of the elements of a micro-batch; the number of elements is not defined. The
    * elements of a key come in the same order as in [[KeyedProcessFunction.processElement]].
    *
    * @param ctx
    *   emits to side outputs
    */
  def processBatch(batch: KeyedBatch[K, IN], ctx: SideOutputContext, out: Collector[OUT]): Unit
}

/** Elements, and the states of their keys. Use it only within the call that got it. */
trait KeyedBatch[K, IN] {

  /** The elements. */
  def elements: IndexedSeq[IN]

  /** The keys of the elements, each once. */
  def keys: IndexedSeq[K]

  /** For each element the index of its key in `keys`. */
  def keyOfElement: IndexedSeq[Int]

  /** The value of a state for each of `keys`; the default or null for a key without a value. */
  def values[T](state: ValueState[T]): IndexedSeq[T]

  /** Sets the value of a state for each of `keys`. Null clears it. The number of values must equal
    * the number of keys, else `KEYSTATE_DECLARATION`.
    */
  def update[T](state: ValueState[T], values: IterableOnce[T]): Unit
}
