package keystate

/** A broadcast state where it can only be read. Keys must not be null (`KEYSTATE_NULL_KEY`). To be
  * used within the function's calls and in their thread, else a [[KeystateException]] is thrown,
  * `KEYSTATE_NOT_IN_CALL`. Values that are got must not be changed in place.
  */
trait ReadOnlyBroadcastState[K, V] {

  /** The value; null when there is none, which a primitive type turns into 0. */
  def get(key: K): V

  /** Whether there is an entry with this key, its value being null or not. */
  def contains(key: K): Boolean

  /** The entries as they are at the call, in no particular order, which can differ between
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

/** A map of which every subtask has the same copy. It can be changed in `processBroadcastElement`
  * only, else a [[KeystateException]] is thrown, `KEYSTATE_DECLARATION`.
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

/** What is known of elements of either kind. Times are in milliseconds since the epoch. */
trait BroadcastBaseContext extends SideOutputContext {

  /** The element's event time. Null when its Dataset has no watermark, or the column that it goes
    * by is null.
    */
  def timestamp(): java.lang.Long

  /** The micro-batch's time, which is the same on all subtasks and when it is run again. */
  def currentProcessingTime(): Long

  /** The watermark that the micro-batch began with; `Long.MinValue` when there is none. */
  def currentWatermark(): Long
}

/** What is known of an element that is not broadcast. */
trait ReadOnlyBroadcastContext extends BroadcastBaseContext {

  /** The broadcast state of this descriptor, which must be one of those given to
    * `data.broadcast(...)`, else `KEYSTATE_DECLARATION`.
    */
  def getBroadcastState[K, V](descriptor: MapStateDescriptor[K, V]): ReadOnlyBroadcastState[K, V]
}

/** What is known of a keyed element that is not broadcast. */
trait KeyedReadOnlyBroadcastContext[K] extends ReadOnlyBroadcastContext with ProcessContext[K]

/** What is known of a timer that fires where broadcast states can be read. */
trait BroadcastOnTimerContext[K] extends KeyedReadOnlyBroadcastContext[K] with OnTimerContext[K]

/** What is known of a broadcast element. */
trait BroadcastContext extends BroadcastBaseContext {

  /** The broadcast state of this descriptor, which must be one of those given to
    * `data.broadcast(...)`, else `KEYSTATE_DECLARATION`.
    */
  def getBroadcastState[K, V](descriptor: MapStateDescriptor[K, V]): BroadcastState[K, V]
}

/** What is known of a broadcast element where there are keys. */
trait KeyedBroadcastContext[K] extends BroadcastContext {

  /** Calls the function for every key of the subtask that has this keyed state, whether it is in
    * the micro-batch or not. What has expired does not count. The function may use the key's other
    * states too. It costs a pass over these keys.
    *
    * Allowed in `processBroadcastElement`, not within itself, and of a state that was got in
    * `open`; else a [[KeystateException]] is thrown, `KEYSTATE_DECLARATION`.
    */
  def applyToKeyedState[S <: State](
      descriptor: StateDescriptor[S],
      function: KeyedStateFunction[K, S]
  ): Unit
}

/** What is done with the keyed state of each key, see [[KeyedBroadcastContext]]. */
trait KeyedStateFunction[K, S <: State] {

  /** Called for one key; `state` is that key's during the call. */
  def process(key: K, state: S): Unit
}

/** A function of elements without keys and of broadcast elements.
  *
  * All copies of a broadcast state must stay the same: `processBroadcastElement` must make the same
  * of the same elements everywhere, without random numbers, clocks, or the subtask's index. Every
  * subtask gets the same broadcast elements in the same order, those of a micro-batch before its
  * other elements; Flink tells no order between the two.
  */
abstract class BroadcastProcessFunction[IN, B, OUT] extends RichFunction {

  /** What `processElement` is told. */
  type ReadOnlyContext = ReadOnlyBroadcastContext

  /** What `processBroadcastElement` is told. */
  type Context = BroadcastContext

  /** Called for each element that is not broadcast; it can read broadcast states. */
  def processElement(value: IN, ctx: ReadOnlyContext, out: Collector[OUT]): Unit

  /** Called in every subtask for each broadcast element; it can change broadcast states. What it
    * emits is emitted by each subtask.
    */
  def processBroadcastElement(value: B, ctx: Context, out: Collector[OUT]): Unit
}

/** A function of keyed elements, with keyed state and timers, and of broadcast elements.
  *
  * All copies of a broadcast state must stay the same, see [[BroadcastProcessFunction]]. So what
  * `processBroadcastElement` writes into broadcast state must not depend on keyed state, which
  * differs between subtasks.
  */
abstract class KeyedBroadcastProcessFunction[K, IN, B, OUT] extends RichFunction {

  /** What `processElement` is told. */
  type ReadOnlyContext = KeyedReadOnlyBroadcastContext[K]

  /** What `processBroadcastElement` is told. */
  type Context = KeyedBroadcastContext[K]

  /** What `onTimer` is told. */
  type OnTimerContext = BroadcastOnTimerContext[K]

  /** Called for each element that is not broadcast; it can read broadcast states. */
  def processElement(value: IN, ctx: ReadOnlyContext, out: Collector[OUT]): Unit

  /** Called in every subtask for each broadcast element; it can change broadcast states. There is
    * no current key: keyed states can be used by `ctx.applyToKeyedState` only. What it emits is
    * emitted by each subtask.
    */
  def processBroadcastElement(value: B, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers.
    *
    * @param timestamp
    *   the time that the timer was set for, in milliseconds since the epoch
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}
