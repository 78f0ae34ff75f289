package keystate

/** A read-only broadcast state. Keys must not be null (`KEYSTATE_NULL_KEY`). Use it only within the
  * function's calls and in their thread, else a [[KeystateException]] is thrown,
  * `KEYSTATE_NOT_IN_CALL`. Do not change the returned values in place.
  */
trait ReadOnlyBroadcastState[K, V] {

  /** The value; null when the key has none. For a primitive type Scala turns null into 0. */
  def get(key: K): V

  /** Whether there is an entry with this key, even if its value is null. */
  def contains(key: K): Boolean

  /** The entries at the time of the call, in no particular order; the order can differ between
    * subtasks.
    */
  def entries(): Iterable[MapEntry[K, V]]

  /** The entries' keys. */
  def keys(): Iterable[K] = entries().map(_.getKey)

  /** The entries' values. */
  def values(): Iterable[V] = entries().map(_.getValue)

  /** Whether there are no entries. */
  def isEmpty(): Boolean
}

/** A map that has the same content in every subtask. Only `processBroadcastElement` can change it;
  * elsewhere a [[KeystateException]] is thrown, `KEYSTATE_DECLARATION`.
  */
trait BroadcastState[K, V] extends ReadOnlyBroadcastState[K, V] with State {

  /** Sets the key's value, which may be null. */
  def put(key: K, value: V): Unit

  /** Puts one entry after the other. */
  def putAll(entries: IterableOnce[(K, V)]): Unit =
    entries.iterator.foreach { case (key, value) => put(key, value) }

  /** Removes the key's entry, if there is one. */
  def remove(key: K): Unit
}

/** The context shared by broadcast and other elements. Times are in milliseconds since the epoch.
  */
trait BroadcastBaseContext extends SideOutputContext {

  /** The element's event time. Null when its Dataset has no watermark, or when the watermark's
    * column is null.
    */
  def timestamp(): java.lang.Long

  /** The micro-batch's time. It is the same in all subtasks and when the micro-batch is run again.
    */
  def currentProcessingTime(): Long

  /** The watermark at the start of the micro-batch; `Long.MinValue` when there is none. */
  def currentWatermark(): Long
}

/** The context of an element that is not broadcast. */
trait ReadOnlyBroadcastContext extends BroadcastBaseContext {

  /** The broadcast state of this descriptor. The descriptor must have been passed to
    * `data.broadcast(...)`, else `KEYSTATE_DECLARATION`.
    */
  def getBroadcastState[K, V](descriptor: MapStateDescriptor[K, V]): ReadOnlyBroadcastState[K, V]
}

/** The context of a keyed element that is not broadcast. */
trait KeyedReadOnlyBroadcastContext[K] extends ReadOnlyBroadcastContext with ProcessContext[K]

/** The context of a firing timer, which can read broadcast states. */
trait BroadcastOnTimerContext[K] extends KeyedReadOnlyBroadcastContext[K] with OnTimerContext[K]

/** The context of a broadcast element. */
trait BroadcastContext extends BroadcastBaseContext {

  /** The broadcast state of this descriptor. The descriptor must have been passed to
    * `data.broadcast(...)`, else `KEYSTATE_DECLARATION`.
    */
  def getBroadcastState[K, V](descriptor: MapStateDescriptor[K, V]): BroadcastState[K, V]
}

/** The context of a broadcast element in a function with keys. */
trait KeyedBroadcastContext[K] extends BroadcastContext {

  /** Calls the function for every key of the subtask that has this keyed state, even if the key is
    * not in the micro-batch. Expired state does not count. The function may use the key's other
    * states too. The call costs a pass over these keys.
    *
    * Allowed in `processBroadcastElement`, but not within itself, and only for a state that `open`
    * got; else a [[KeystateException]] is thrown, `KEYSTATE_DECLARATION`.
    */
  def applyToKeyedState[S <: State](
      descriptor: StateDescriptor[S],
      function: KeyedStateFunction[K, S]
  ): Unit
}

/** Processes the keyed state of each key, see [[KeyedBroadcastContext]]. */
trait KeyedStateFunction[K, S <: State] {

  /** Called for one key; `state` is that key's during the call. */
  def process(key: K, state: S): Unit
}

/** A function of elements without keys and of broadcast elements.
  *
  * All copies of a broadcast state must stay the same: `processBroadcastElement` must compute the
  * same result from the same elements everywhere, without random numbers, clocks, or the subtask's
  * index. Every subtask gets the same broadcast elements in the same order, and gets those of a
  * micro-batch before the micro-batch's other elements; Flink defines no order between the two.
  */
abstract class BroadcastProcessFunction[IN, B, OUT] extends RichFunction {

  /** The context that `processElement` gets. */
  type ReadOnlyContext = ReadOnlyBroadcastContext

  /** The context that `processBroadcastElement` gets. */
  type Context = BroadcastContext

  /** Called for each element that is not broadcast; it can read broadcast states. */
  def processElement(value: IN, ctx: ReadOnlyContext, out: Collector[OUT]): Unit

  /** Called in every subtask for each broadcast element; it can change broadcast states. Every
    * subtask emits its results.
    */
  def processBroadcastElement(value: B, ctx: Context, out: Collector[OUT]): Unit
}

/** A function of keyed elements, with keyed state and timers, and of broadcast elements.
  *
  * All copies of a broadcast state must stay the same, see [[BroadcastProcessFunction]]. So the
  * values that `processBroadcastElement` writes into broadcast state must not depend on keyed
  * state, which differs between subtasks.
  */
abstract class KeyedBroadcastProcessFunction[K, IN, B, OUT] extends RichFunction {

  /** The context that `processElement` gets. */
  type ReadOnlyContext = KeyedReadOnlyBroadcastContext[K]

  /** The context that `processBroadcastElement` gets. */
  type Context = KeyedBroadcastContext[K]

  /** The context that `onTimer` gets. */
  type OnTimerContext = BroadcastOnTimerContext[K]

  /** Called for each element that is not broadcast; it can read broadcast states. */
  def processElement(value: IN, ctx: ReadOnlyContext, out: Collector[OUT]): Unit

  /** Called in every subtask for each broadcast element; it can change broadcast states. There is
    * no current key: only `ctx.applyToKeyedState` can use keyed states. Every subtask emits its
    * results.
    */
  def processBroadcastElement(value: B, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers.
    *
    * @param timestamp
    *   the time that the timer was set for, in milliseconds since the epoch
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}
