package keystate

trait MapFunction[IN, OUT] extends Serializable {
  def map(value: IN): OUT
}

trait FlatMapFunction[IN, OUT] extends Serializable {
  def flatMap(value: IN, out: Collector[OUT]): Unit
}

trait FilterFunction[T] extends Serializable {
  def filter(value: T): Boolean
}

trait ReduceFunction[T] extends Serializable {
  def reduce(first: T, second: T): T
}

trait AggregateFunction[IN, ACC, OUT] extends Serializable {
  def createAccumulator(): ACC
  def add(value: IN, accumulator: ACC): ACC
  def getResult(accumulator: ACC): OUT
  def merge(first: ACC, second: ACC): ACC
}

@deprecated("use AggregateFunction", "Flink 1.4")
trait FoldFunction[T, ACC] extends Serializable {
  def fold(accumulator: ACC, value: T): ACC
}

/** Takes results. */
trait Collector[T] {
  def collect(result: T): Unit
}

/** A function with a life cycle and state. `open` also runs on a copy on the driver, where a state
  * can be had but not used.
  */
abstract class RichFunction extends Serializable {
  @transient private var context: RuntimeContext = _

  /** Called once for a subtask before its first element; override either this or the other one. */
  def open(context: RuntimeContext): Unit = open(new Configuration)

  def open(parameters: Configuration): Unit = ()

  /** Called when the subtask lets the function go, not when its executor is killed. */
  def close(): Unit = ()

  def getRuntimeContext: RuntimeContext = {
    if (context == null) throw new IllegalStateException("there is no context before open")
    context
  }

  /** Called before `open`. */
  def setRuntimeContext(context: RuntimeContext): Unit = this.context = context
}

abstract class RichMapFunction[IN, OUT] extends RichFunction with MapFunction[IN, OUT]
abstract class RichFlatMapFunction[IN, OUT] extends RichFunction with FlatMapFunction[IN, OUT]
abstract class RichFilterFunction[T] extends RichFunction with FilterFunction[T]
abstract class RichReduceFunction[T] extends RichFunction with ReduceFunction[T]

/** The operator's clocks, in milliseconds since the epoch, and the current key's timers. A timer fires
  * in the first micro-batch after the one that set it whose clock has passed its time, after that
  * batch's elements and in order of time.
  */
trait TimerService {

  /** The micro-batch's time. */
  def currentProcessingTime(): Long

  /** `Long.MinValue` when the input has no watermark. */
  def currentWatermark(): Long
  def registerEventTimeTimer(time: Long): Unit
  def registerProcessingTimeTimer(time: Long): Unit
  def deleteEventTimeTimer(time: Long): Unit
  def deleteProcessingTimeTimer(time: Long): Unit
}

/** Which clock a timer goes by. */
sealed abstract class TimeDomain

object TimeDomain {
  case object EVENT_TIME extends TimeDomain
  case object PROCESSING_TIME extends TimeDomain
}

/** What is known of the element at hand. */
trait ElementContext {

  /** The element's event time in milliseconds, of a timer its time; null without a watermark. */
  def timestamp(): java.lang.Long

  /** The clocks; without keys there are no timers. */
  def timerService(): TimerService
}

/** What is known of an element with a key. */
trait ProcessContext[K] extends ElementContext {
  def getCurrentKey: K
}

/** What is known of the timer that fires. */
trait OnTimerContext[K] extends ProcessContext[K] {
  def timeDomain(): TimeDomain
}

abstract class KeyedProcessFunction[K, IN, OUT] extends RichFunction {
  type Context = ProcessContext[K]
  type OnTimerContext = keystate.OnTimerContext[K]

  def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers. */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}

/** A function of elements without keys; for operator state it is a [[CheckpointedFunction]] too. */
abstract class ProcessFunction[IN, OUT] extends RichFunction {
  type Context = ElementContext

  def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit
}
