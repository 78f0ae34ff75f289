package keystate

/** A broadcast state where it can only be read. What is not there is null. */
trait ReadOnlyBroadcastState[K, V] {
  def get(key: K): V
  def contains(key: K): Boolean

  /** The entries as they are at the call, in no particular order. */
  def entries(): Iterable[MapEntry[K, V]]
  def keys(): Iterable[K] = entries().map(_.getKey)
  def values(): Iterable[V] = entries().map(_.getValue)
  def isEmpty(): Boolean
}

/** A map of which every subtask has the same copy. */
trait BroadcastState[K, V] extends ReadOnlyBroadcastState[K, V] with State {
  def put(key: K, value: V): Unit
  def putAll(entries: IterableOnce[(K, V)]): Unit
  def remove(key: K): Unit
}

/** What is known of elements of either kind. */
trait BroadcastBaseContext {

  /** The element's event time in milliseconds; null without a watermark. */
  def timestamp(): java.lang.Long

  /** The micro-batch's time. */
  def currentProcessingTime(): Long

  /** `Long.MinValue` when the input has no watermark. */
  def currentWatermark(): Long
}

/** What is known of an element that is not broadcast. */
trait ReadOnlyBroadcastContext extends BroadcastBaseContext {
  def getBroadcastState[K, V](
      descriptor: MapStateDescriptor[K, V]
  ): ReadOnlyBroadcastState[K, V]
}

/** The same where there are keys. */
trait KeyedReadOnlyBroadcastContext[K] extends ReadOnlyBroadcastContext with ProcessContext[K]

/** What is known of a timer that fires where broadcast states can be read. */
trait BroadcastOnTimerContext[K] extends KeyedReadOnlyBroadcastContext[K] with OnTimerContext[K]

/** What is known of a broadcast element. */
trait BroadcastContext extends BroadcastBaseContext {
  def getBroadcastState[K, V](descriptor: MapStateDescriptor[K, V]): BroadcastState[K, V]
}

/** The same where there are keys. */
trait KeyedBroadcastContext[K] extends BroadcastContext {

  /** Calls the function for every key of the subtask that has this keyed state, whether it is in the
    * micro-batch or not; the key's other states can be used too.
    */
  def applyToKeyedState[S <: State](
      descriptor: StateDescriptor[S],
      function: KeyedStateFunction[K, S]
  ): Unit
}

trait KeyedStateFunction[K, S <: State] {
  def process(key: K, state: S): Unit
}

/** A function of elements without keys and of broadcast elements. All copies of broadcast state must
  * stay the same: `processBroadcastElement` must make the same of the same elements everywhere.
  */
abstract class BroadcastProcessFunction[IN, B, OUT] extends RichFunction {
  type ReadOnlyContext = ReadOnlyBroadcastContext
  type Context = BroadcastContext

  def processElement(value: IN, ctx: ReadOnlyContext, out: Collector[OUT]): Unit

  def processBroadcastElement(value: B, ctx: Context, out: Collector[OUT]): Unit
}

/** The same with keys; `processBroadcastElement` must not let broadcast state depend on keyed state. */
abstract class KeyedBroadcastProcessFunction[K, IN, B, OUT] extends RichFunction {
  type ReadOnlyContext = KeyedReadOnlyBroadcastContext[K]
  type Context = KeyedBroadcastContext[K]
  type OnTimerContext = BroadcastOnTimerContext[K]

  def processElement(value: IN, ctx: ReadOnlyContext, out: Collector[OUT]): Unit

  def processBroadcastElement(value: B, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers. */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}
