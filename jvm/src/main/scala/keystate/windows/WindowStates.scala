package keystate.windows

import scala.collection.mutable

import keystate.errors.KeystateErrors
import keystate.{
  AggregateFunction, AggregatingState, AggregatingStateDescriptor, KeyOrder, KeyedStateStore,
  ListState, ListStateDescriptor, MapEntry, MapState, MapStateDescriptor, ReduceFunction,
  ReducingState, ReducingStateDescriptor, SortedMapState, SortedMapStateDescriptor, State,
  StateDescriptor, TypeInformation, ValueState, ValueStateDescriptor
}
import org.apache.spark.sql.keystate.jvm.state.CopiesValues

/** The window at hand. */
private[windows] trait WindowCursor {
  var window: WindowKey = _
}

/** A key of a map of a window; `key` is of the user's type. */
private[keystate] final case class WindowMapKey(end: Long, start: Long, key: Any)

/** States that are had again by their descriptors' names. */
private[windows] final class NamedStates[S] {
  private val known = mutable.HashMap.empty[String, (AnyRef, S)]

  /** A state; it is made if there is none of this name. One of another kind is an error. */
  def get(descriptor: StateDescriptor[_])(make: => S): S = {
    val (first, state) = known.getOrElseUpdate(descriptor.name, (descriptor, make))
    if (first.getClass ne descriptor.getClass)
      throw KeystateErrors.twoKinds(descriptor.name, first.getClass, descriptor.getClass)
    state
  }
}

/** Gives states of a key and a window, made of sorted maps of the key: an entry for each window.
  * What was got once is had again by its descriptor.
  *
  * @param store
  *   gives the states of the key
  * @param prefix
  *   of the names of these
  */
private[windows] final class WindowStates(
    store: KeyedStateStore,
    cursor: WindowCursor,
    prefix: String
) extends KeyedStateStore {
  private val states = new NamedStates[OfWindow]

  /** Merges what windows have in a state into what the window at hand has. */
  def merge(descriptor: StateDescriptor[_ <: State], sources: Iterable[WindowKey]): Unit =
    states.get(descriptor)(make(descriptor)).merge(cursor.window, sources)

  override protected[keystate] def provide[S <: State](descriptor: StateDescriptor[S]): S =
    states.get(descriptor)(make(descriptor)).asInstanceOf[S]

  private def make(descriptor: StateDescriptor[_]): OfWindow = descriptor match {
    case value: ValueStateDescriptor[_] =>
      new WindowValue(entries(value, WindowStates.Key, value.valueType), cursor, value.default)
    case reducing: ReducingStateDescriptor[_] =>
      val function = reducing.function.asInstanceOf[ReduceFunction[Any]]
      new WindowReduced(entries(reducing, WindowStates.Key, reducing.valueType), cursor, function)
    case aggregating: AggregatingStateDescriptor[_, _, _] =>
      val function = aggregating.function.asInstanceOf[AggregateFunction[Any, Any, Any]]
      val kept = entries(aggregating, WindowStates.Key, aggregating.accumulatorType)
      new WindowAggregated(kept, cursor, function)
    case list: ListStateDescriptor[_] =>
      new WindowList(entries(list, WindowStates.Numbered, list.elementType), cursor)
    case map: MapStateDescriptor[_, _] =>
      val keyType = TypeInformation.struct[WindowMapKey](
        "end" -> WindowStates.Time,
        "start" -> WindowStates.Time,
        "key" -> map.keyType
      )
      new WindowMap(map.name, entries(map, keyType, map.valueType), cursor)
    case other =>
      throw KeystateErrors.declaration(
        s"State '${other.name}' is of a kind that a window can't have: it has value, list, map, " +
          "reducing and aggregating states."
      )
  }

  private def entries[K](
      of: StateDescriptor[_],
      keyType: TypeInformation[K],
      valueType: TypeInformation[_]
  ): SortedMapState[K, Any] = {
    val descriptor = new SortedMapStateDescriptor(
      s"$prefix-${of.name}",
      KeyOrder.NATURAL,
      keyType,
      valueType.asInstanceOf[TypeInformation[Any]]
    )
    descriptor.enableTimeToLive(of.getTtlConfig)
    store.getSortedMapState(descriptor)
  }
}

private[windows] object WindowStates {
  val Key: TypeInformation[WindowKey] = implicitly
  val Numbered: TypeInformation[NumberedKey] = implicitly
  val Time: TypeInformation[Long] = implicitly
}

/** A state whose entries are found by the window at hand, and merged. */
private[windows] sealed trait OfWindow extends State {

  /** Moves what some windows have into another one. */
  def merge(target: WindowKey, sources: Iterable[WindowKey]): Unit =
    throw KeystateErrors.declaration(
      "Only list, reducing and aggregating states can be merged, as Flink's MergingStates."
    )
}

private final class WindowValue(
    entries: SortedMapState[WindowKey, Any],
    cursor: WindowCursor,
    default: Any
) extends OfWindow
    with ValueState[Any] {
  private val copies = entries.asInstanceOf[CopiesValues]
  private val taken = copies.copyOf(default)

  override def value(): Any = {
    val value = entries.get(cursor.window)
    if (value == null) copies.copyOf(taken) else value
  }
  override def update(value: Any): Unit =
    if (value == null) clear() else entries.put(cursor.window, value)
  override def clear(): Unit = entries.remove(cursor.window)
}

/** One value or accumulator a window. */
private sealed abstract class Folded(entries: SortedMapState[WindowKey, Any], cursor: WindowCursor)
    extends OfWindow {
  protected def combined(a: Any, b: Any): Any

  /** What there is, with a value in it; `current` is null if there is nothing. */
  protected def folded(current: Any, value: Any): Any

  protected def stored: Any = entries.get(cursor.window)

  def add(value: Any): Unit =
    if (value == null) clear() else entries.put(cursor.window, folded(stored, value))

  override def clear(): Unit = entries.remove(cursor.window)

  override def merge(target: WindowKey, sources: Iterable[WindowKey]): Unit = {
    var merged = entries.get(target)
    sources.foreach { source =>
      val mine = entries.get(source)
      entries.remove(source)
      if (mine != null) merged = if (merged == null) mine else combined(merged, mine)
    }
    if (merged != null) entries.put(target, merged)
  }
}

private final class WindowReduced(
    entries: SortedMapState[WindowKey, Any],
    cursor: WindowCursor,
    function: ReduceFunction[Any]
) extends Folded(entries, cursor)
    with ReducingState[Any] {
  override protected def combined(a: Any, b: Any): Any = function.reduce(a, b)
  override protected def folded(current: Any, value: Any): Any =
    if (current == null) value else function.reduce(current, value)
  override def get(): Any = stored
}

private final class WindowAggregated(
    entries: SortedMapState[WindowKey, Any],
    cursor: WindowCursor,
    function: AggregateFunction[Any, Any, Any]
) extends Folded(entries, cursor)
    with AggregatingState[Any, Any] {
  override protected def combined(a: Any, b: Any): Any = function.merge(a, b)
  override protected def folded(current: Any, value: Any): Any =
    function.add(value, if (current == null) first() else current)

  // A copy: the function may give all windows one object.
  private def first(): Any =
    entries.asInstanceOf[CopiesValues].copyOf(function.createAccumulator())

  override def get(): Any = {
    val accumulator = stored
    if (accumulator == null) null else function.getResult(accumulator)
  }
}

/** Elements by window and number. */
private final class WindowList(entries: SortedMapState[NumberedKey, Any], cursor: WindowCursor)
    extends OfWindow
    with ListState[Any] {
  private def of(window: WindowKey): Vector[Any] = entries
    .subIterator(NumberedKey.first(window), NumberedKey.last(window))
    .map(_.getValue)
    .toVector

  private def next(window: WindowKey): Long = entries
    .subIterator(NumberedKey.first(window), NumberedKey.last(window), reverse = true)
    .nextOption()
    .fold(0L)(_.getKey.number + 1)

  private def append(window: WindowKey, values: IterableOnce[Any]): Unit = {
    var number = next(window)
    values.iterator.foreach { value =>
      entries.put(NumberedKey(window.end, window.start, number), value)
      number += 1
    }
  }

  private def remove(window: WindowKey): Unit =
    entries.removeRange(NumberedKey.first(window), NumberedKey.last(window))

  override def get(): Iterable[Any] = of(cursor.window)
  override def add(value: Any): Unit = append(cursor.window, Iterator.single(value))
  override def addAll(values: IterableOnce[Any]): Unit = append(cursor.window, values)
  override def update(values: IterableOnce[Any]): Unit = {
    // Put one by one: an iterator may give the same object again with another content.
    val window = cursor.window
    val kept = NumberedKey(window.end, window.start, next(window))
    append(window, values)
    entries.removeRange(NumberedKey.first(window), kept)
  }
  override def clear(): Unit = remove(cursor.window)

  override def merge(target: WindowKey, sources: Iterable[WindowKey]): Unit =
    sources.foreach { source =>
      append(target, of(source))
      remove(source)
    }
}

/** Entries by window and the user's key. */
private final class WindowMap(
    name: String,
    stored: SortedMapState[WindowMapKey, Any],
    cursor: WindowCursor
) extends OfWindow
    with MapState[Any, Any] {
  private def at(key: Any): WindowMapKey = {
    if (key == null || key == None) throw KeystateErrors.nullUserKey(name, "a map of a window")
    WindowMapKey(cursor.window.end, cursor.window.start, key)
  }

  // Null is before all keys.
  private def first = WindowMapKey(cursor.window.end, cursor.window.start, null)
  private def last = WindowMapKey(cursor.window.end, cursor.window.start + 1, null)

  override def get(key: Any): Any = stored.get(at(key))
  override def put(key: Any, value: Any): Unit = stored.put(at(key), value)
  override def remove(key: Any): Unit = stored.remove(at(key))
  override def contains(key: Any): Boolean = stored.contains(at(key))
  override def iterator(): Iterator[MapEntry[Any, Any]] =
    stored.subIterator(first, last).map(each => MapEntry(each.getKey.key, each.getValue))
  override def isEmpty(): Boolean = !iterator().hasNext
  override def clear(): Unit = stored.removeRange(first, last)
}
