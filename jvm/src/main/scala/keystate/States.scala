package keystate

import java.util.Map.Entry

/** State of the current element's or timer's key. Operator and broadcast state belong to the
  * subtask.
  *
  * Get keyed state in `open`, and use it in `processElement`, `onTimer`, `map` and the like, in the
  * thread that called them. Elsewhere each method throws a [[KeystateException]],
  * `KEYSTATE_NO_CURRENT_KEY`. Writing a value that does not fit the state's type fails with
  * `KEYSTATE_STATE_TYPE`.
  *
  * A write copies the value: the object may be changed and used again. Each read returns a new
  * object, and a change in place is kept only if the object is written back.
  */
trait State {

  /** Removes the state's whole content. */
  def clear(): Unit
}

/** One value. */
trait ValueState[T] extends State {

  /** The value. If there is none, the descriptor's default; without a default null, which a
    * primitive type turns into 0.
    */
  def value(): T

  /** Replaces the value; null removes it. `None` is a value like any other. */
  def update(value: T): Unit
}

/** State to which values are added. */
trait AppendingState[IN, OUT] extends State {

  /** The added values, or the result computed from them. Before the first value: an empty list from
    * a list, null from any other kind.
    */
  def get(): OUT

  /** Adds a value. A list keeps null as an element; any other kind of state is removed by null. */
  def add(value: IN): Unit
}

/** A list in insertion order. Flink refuses null elements; Keystate keeps them.
  *
  * `get` never returns null, and returns the list at the time of the call.
  */
trait ListState[T] extends AppendingState[T, Iterable[T]] {

  /** Adds all values, in their order. */
  def addAll(values: IterableOnce[T]): Unit

  /** Replaces the list; no values make it empty. */
  def update(values: IterableOnce[T]): Unit
}

/** One value: a [[ReduceFunction]] reduces all added values to it; null before the first. */
trait ReducingState[T] extends AppendingState[T, T]

/** The result of an [[AggregateFunction]]; null before the first `add`. The accumulator is stored;
  * each `get` computes the result from it.
  */
trait AggregatingState[IN, OUT] extends AppendingState[IN, OUT]

/** The result of a [[FoldFunction]] over the initial value and all added values; null before the
  * first `add`.
  */
@deprecated("use AggregatingState", "Flink 1.4")
trait FoldingState[T, ACC] extends AppendingState[T, ACC]

/** A key and a value of a map; `case MapEntry(key, value)` extracts them. It is a copy: later
  * changes of the state do not change it.
  */
final case class MapEntry[K, V](getKey: K, getValue: V) extends Entry[K, V] {

  /** Always throws UnsupportedOperationException: `put` the new value into the state. */
  override def setValue(value: V): V =
    throw new UnsupportedOperationException("put the new value into the state")
}

/** A map, in no particular order. Keys must not be null or `None` (`KEYSTATE_NULL_KEY`); values may
  * be.
  *
  * An iterator returns the entries that the map had when the iterator was made, whatever changes
  * meanwhile. It ends with the function's call that made it, and throws after that. `entries`,
  * `keys` and `values` make a new iterator for each iteration.
  */
trait MapState[K, V] extends State {

  /** The value; null when the key has none. For a primitive type Scala turns null into 0. */
  def get(key: K): V

  /** Sets the key's value. A null value is an entry too; `remove` removes it. */
  def put(key: K, value: V): Unit

  /** Puts one entry after the other. */
  def putAll(entries: IterableOnce[(K, V)]): Unit =
    entries.iterator.foreach { case (key, value) => put(key, value) }

  /** Removes the key's entry, if there is one. */
  def remove(key: K): Unit

  /** Whether there is an entry with this key, even if its value is null. */
  def contains(key: K): Boolean

  /** The entries, never null. */
  def entries(): Iterable[MapEntry[K, V]] = new Iterable[MapEntry[K, V]] {
    override def iterator: Iterator[MapEntry[K, V]] = MapState.this.iterator()
  }

  /** The entries' keys, never null. */
  def keys(): Iterable[K] = entries().view.map(_.getKey)

  /** The entries' values, never null. */
  def values(): Iterable[V] = entries().view.map(_.getValue)

  /** A new iterator over the entries. */
  def iterator(): Iterator[MapEntry[K, V]]

  /** Whether there are no entries. */
  def isEmpty(): Boolean
}

/** A map sorted by its keys, in the order that its descriptor names: `entries`, `keys`, `values`
  * and iterators are in that order, and "first", "before" and "after" refer to it.
  *
  * Methods that return one entry return null when there is none. An iterator with `reverse` returns
  * the same entries from the last to the first.
  */
trait SortedMapState[K, V] extends MapState[K, V] {

  /** The entry with the first key. */
  def firstEntry(): MapEntry[K, V]

  /** The entry with the last key. */
  def lastEntry(): MapEntry[K, V]

  /** Entries whose keys are before `end`. */
  def headIterator(end: K, reverse: Boolean = false): Iterator[MapEntry[K, V]]

  /** Entries whose keys are `start` or after it. */
  def tailIterator(start: K, reverse: Boolean = false): Iterator[MapEntry[K, V]]

  /** Entries whose keys are `start` or after it, and before `end`; none if `end` is not after
    * `start`.
    */
  def subIterator(start: K, end: K, reverse: Boolean = false): Iterator[MapEntry[K, V]]

  /** The last entry whose key is `key` or before it. */
  def floorEntry(key: K): MapEntry[K, V]

  /** The first entry whose key is `key` or after it. */
  def ceilingEntry(key: K): MapEntry[K, V]

  /** Removes the first entry and returns it. */
  def popFirst(): MapEntry[K, V]

  /** Removes the entries whose keys are `start` or after it, and before `end`. */
  def removeRange(start: K, end: K): Unit
}
