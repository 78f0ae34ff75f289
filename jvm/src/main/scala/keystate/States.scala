package keystate

import java.util.Map.Entry

/** State of the key of the element or timer at hand. Operator and broadcast state are of the
  * subtask.
  *
  * Get keyed state in `open`, and use it in `processElement`, `onTimer`, `map` and the like, in the
  * thread that called them. Elsewhere each method throws a [[KeystateException]],
  * `KEYSTATE_NO_CURRENT_KEY`. A value that does not fit the state's type is refused when it is
  * written, `KEYSTATE_STATE_TYPE`.
  *
  * A value is taken as it is when it is handed over: the object may be changed and used again.
  * Likewise each read gives an object of its own, and a change in place is kept only if it is
  * written back.
  */
trait State {

  /** Removes all that the state holds. */
  def clear(): Unit
}

/** One value. */
trait ValueState[T] extends State {

  /** The value. If there is none, the descriptor's default, and without a default null, which a
    * primitive type turns into 0.
    */
  def value(): T

  /** Replaces the value; null removes it. `None` is a value like others. */
  def update(value: T): Unit
}

/** State that is added to. */
trait AppendingState[IN, OUT] extends State {

  /** What was added, or what was made of it. When nothing was: an empty list from a list, null from
    * any other kind.
    */
  def get(): OUT

  /** Adds a value. Null is an element like others to a list, and removes the state of any other
    * kind.
    */
  def add(value: IN): Unit
}

/** A list in the order of adding. Flink refuses null elements; here they are kept.
  *
  * `get` is never null, and shows the list as it was at the call.
  */
trait ListState[T] extends AppendingState[T, Iterable[T]] {

  /** Adds all values, in their order. */
  def addAll(values: IterableOnce[T]): Unit

  /** Replaces the list; no values empty it. */
  def update(values: IterableOnce[T]): Unit
}

/** One value, to which a [[ReduceFunction]] reduces all that was added; null before the first. */
trait ReducingState[T] extends AppendingState[T, T]

/** The result of an [[AggregateFunction]]; null before the first `add`. The accumulator is stored,
  * and the result made of it at each `get`.
  */
trait AggregatingState[IN, OUT] extends AppendingState[IN, OUT]

/** What a [[FoldFunction]] made of the initial value and all that was added; null before the first
  * `add`.
  */
@deprecated("use AggregatingState", "Flink 1.4")
trait FoldingState[T, ACC] extends AppendingState[T, ACC]

/** A key and a value of a map; `case MapEntry(key, value)` takes it apart. A copy: it does not
  * change with the state.
  */
final case class MapEntry[K, V](getKey: K, getValue: V) extends Entry[K, V] {

  /** Always throws UnsupportedOperationException: `put` the new value into the state. */
  override def setValue(value: V): V =
    throw new UnsupportedOperationException("put the new value into the state")
}

/** A map, in no particular order. Keys must not be null, and no `None`
  * (`KEYSTATE_NULL_KEY`); values may be.
  *
  * An iterator shows the map as it was when the iterator was made, whatever is changed meanwhile.
  * It ends with the call of the function that made it, and throws after that. `entries`, `keys` and
  * `values` make a new iterator each time they are gone through.
  */
trait MapState[K, V] extends State {

  /** The value; null when there is none, which a primitive type turns into 0. */
  def get(key: K): V

  /** Sets the key's value. A value of null is an entry too: remove it with `remove`. */
  def put(key: K, value: V): Unit

  /** Puts one entry after the other. */
  def putAll(entries: IterableOnce[(K, V)]): Unit =
    entries.iterator.foreach { case (key, value) => put(key, value) }

  /** Removes the key's entry, if there is one. */
  def remove(key: K): Unit

  /** Whether there is an entry with this key, its value being null or not. */
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

/** A map in the order of its keys, which its descriptor names: `entries`, `keys`, `values` and
  * iterators are in that order, and "first", "before" and "after" go by it.
  *
  * Methods that return one entry return null when there is none. An iterator with `reverse` gives
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
