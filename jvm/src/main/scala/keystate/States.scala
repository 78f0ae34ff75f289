package keystate

import java.util.Map.Entry

/** State of the key of the element at hand. */
trait State {

  /** Removes it. */
  def clear(): Unit
}

trait ValueState[T] extends State {

  /** The value; the descriptor's default when there is none, else null (for a primitive type, 0). */
  def value(): T

  /** Sets the value; null removes it. */
  def update(value: T): Unit
}

/** State that is added to. */
trait AppendingState[IN, OUT] extends State {
  def get(): OUT

  /** Adds a value; null, which a list may hold, removes the state of any other kind. */
  def add(value: IN): Unit
}

/** A list; `get` is never null, and shows the list as it was at the call. */
trait ListState[T] extends AppendingState[T, Iterable[T]] {
  def addAll(values: IterableOnce[T]): Unit

  /** Replaces the list. */
  def update(values: IterableOnce[T]): Unit
}

/** One value, of all that was added by a [[ReduceFunction]]; null before the first. */
trait ReducingState[T] extends AppendingState[T, T]

/** The result of an [[AggregateFunction]]; null before the first `add`. */
trait AggregatingState[IN, OUT] extends AppendingState[IN, OUT]

/** What a [[FoldFunction]] made; null before the first `add`. */
@deprecated("use AggregatingState", "Flink 1.4")
trait FoldingState[T, ACC] extends AppendingState[T, ACC]

/** A key and a value of a map; `case MapEntry(key, value)` takes it apart. */
final case class MapEntry[K, V](getKey: K, getValue: V) extends Entry[K, V] {
  override def setValue(value: V): V =
    throw new UnsupportedOperationException("put the new value into the state")
}

/** A map. Iterators show it as it was when they were made, and end with the element at hand. */
trait MapState[K, V] extends State {

  /** The value; null when there is none. */
  def get(key: K): V
  def put(key: K, value: V): Unit
  def putAll(entries: IterableOnce[(K, V)]): Unit
  def remove(key: K): Unit
  def contains(key: K): Boolean
  def entries(): Iterable[MapEntry[K, V]]
  def keys(): Iterable[K]
  def values(): Iterable[V]
  def iterator(): Iterator[MapEntry[K, V]]
  def isEmpty(): Boolean
}

/** A map in the order of its keys. Entries that are not there are null. */
trait SortedMapState[K, V] extends MapState[K, V] {
  def firstEntry(): MapEntry[K, V]
  def lastEntry(): MapEntry[K, V]

  /** Keys before `end`. */
  def headIterator(end: K, reverse: Boolean = false): Iterator[MapEntry[K, V]]

  /** Keys from `start` on. */
  def tailIterator(start: K, reverse: Boolean = false): Iterator[MapEntry[K, V]]

  /** Keys from `start` on and before `end`. */
  def subIterator(start: K, end: K, reverse: Boolean = false): Iterator[MapEntry[K, V]]

  /** The last entry whose key is not after `key`. */
  def floorEntry(key: K): MapEntry[K, V]

  /** The first entry whose key is not before `key`. */
  def ceilingEntry(key: K): MapEntry[K, V]

  /** Takes the first entry out. */
  def popFirst(): MapEntry[K, V]

  /** Removes the keys from `start` on and before `end`. */
  def removeRange(start: K, end: K): Unit
}
