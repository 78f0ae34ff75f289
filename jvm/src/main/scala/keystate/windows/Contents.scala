package keystate.windows

import scala.collection.mutable.ArrayBuffer
import scala.util.Try

import keystate.{
  AggregateFunction,
  KeyOrder,
  KeyedStateStore,
  ReduceFunction,
  RichFunction,
  RuntimeContext,
  SortedMapState,
  SortedMapStateDescriptor,
  TypeInformation,
  ValueState,
  ValueStateDescriptor
}
import org.apache.spark.sql.keystate.encoding.ValueCopies

/** Makes one accumulator of elements; null is that of no elements. */
private[keystate] sealed abstract class Fold(val accumulatorType: TypeInformation[_])
    extends Serializable {
  def open(context: RuntimeContext): Unit = ()
  def close(): Unit = ()

  /** The accumulator with an element in it. */
  def add(element: Any, accumulator: Any): Any

  /** The accumulator of both. */
  def merge(a: Any, b: Any): Any

  /** What the accumulator stands for. */
  def result(accumulator: Any): Any
}

/** Reduces elements to one. */
private[keystate] final class ReduceFold(
    function: ReduceFunction[Any],
    elementType: TypeInformation[_]
) extends Fold(elementType) {
  override def open(context: RuntimeContext): Unit = RichFunction.open(function, context)
  override def close(): Unit = RichFunction.close(function)

  override def add(element: Any, accumulator: Any): Any =
    if (accumulator == null) element else merge(accumulator, element)

  override def merge(a: Any, b: Any): Any = {
    val result = function.reduce(a, b)
    if (result == null)
      throw new IllegalArgumentException("reduce returned null, where it must return an element")
    result
  }

  override def result(accumulator: Any): Any = accumulator
}

/** Aggregates elements. To be made on the driver. */
private[keystate] final class AggregateFold(
    function: AggregateFunction[Any, Any, Any],
    accumulatorType: TypeInformation[_]
) extends Fold(accumulatorType) {
  // None of a type without encoder, which a state refuses. Evictors need no state of it.
  private val copies = Try(ValueCopies(accumulatorType.encoder)).toOption

  override def add(element: Any, accumulator: Any): Any =
    function.add(element, if (accumulator == null) first() else accumulator)

  // A copy: the function may give all windows one object.
  private def first(): Any = {
    val created = function.createAccumulator()
    copies.fold[Any](created)(_(created))
  }

  override def merge(a: Any, b: Any): Any = function.merge(a, b)
  override def result(accumulator: Any): Any = function.getResult(accumulator)
}

/** What the windows of a key hold. It is told on the driver, and opened in a subtask. */
private[keystate] sealed abstract class Contents extends Serializable {

  /** Gets the states. */
  def open(store: KeyedStateStore): Unit

  /** Whether `add` gives elements to a function of the user's, which may change them. */
  def changesElements: Boolean

  /** Adds an element with its event time, if it has one. */
  def add(window: WindowKey, element: Any, time: java.lang.Long): Unit

  /** Empties a window. */
  def clear(window: WindowKey): Unit

  /** Moves what some windows hold into another one. */
  def merge(target: WindowKey, sources: Seq[WindowKey]): Unit

  /** The windows with this end that hold something. */
  def ending(end: Long): Seq[WindowKey]
}

/** An accumulator for each window. */
private[keystate] final class FoldedContents(val fold: Fold) extends Contents {
  @transient private var accumulators: SortedMapState[WindowKey, Any] = _

  override def open(store: KeyedStateStore): Unit =
    accumulators = store.getSortedMapState(
      new SortedMapStateDescriptor(
        "window-contents",
        KeyOrder.NATURAL,
        WindowStates.Key,
        fold.accumulatorType.asInstanceOf[TypeInformation[Any]]
      )
    )

  override def changesElements: Boolean = true

  /** Adds an element; returns whether it is the window's first. */
  def addTo(window: WindowKey, element: Any): Boolean = {
    val accumulator = accumulators.get(window)
    accumulators.put(window, fold.add(element, accumulator))
    accumulator == null
  }

  override def add(window: WindowKey, element: Any, time: java.lang.Long): Unit = {
    addTo(window, element)
    ()
  }

  /** What a window holds; null if that is nothing. */
  def accumulator(window: WindowKey): Any = accumulators.get(window)

  /** The window that ends first, and what it holds; null if there is none. */
  def first: java.util.Map.Entry[WindowKey, Any] = accumulators.firstEntry()

  override def clear(window: WindowKey): Unit = accumulators.remove(window)

  override def merge(target: WindowKey, sources: Seq[WindowKey]): Unit =
    MergedEntries.move(accumulators, target, sources)(fold.merge)

  override def ending(end: Long): Seq[WindowKey] = accumulators
    .tailIterator(WindowKey(end, Long.MinValue))
    .map(_.getKey)
    .takeWhile(_.end == end)
    .toVector
}

/** An element as it is kept; `row` is of the user's type. Python names the fields the same. */
private[keystate] final case class StoredElement(row: Any, time: java.lang.Long)

/** The elements of each window: an entry for each, numbered as they came. */
private[keystate] final class ListedContents(elementType: TypeInformation[_]) extends Contents {
  private val time: TypeInformation[java.lang.Long] = implicitly
  @transient private var stored: SortedMapState[NumberedKey, StoredElement] = _
  @transient private var next: ValueState[Long] = _

  override def open(store: KeyedStateStore): Unit = {
    stored = store.getSortedMapState(
      new SortedMapStateDescriptor(
        "window-elements",
        KeyOrder.NATURAL,
        WindowStates.Numbered,
        TypeInformation.struct[StoredElement]("row" -> elementType, "time" -> time)
      )
    )
    next = store.getState(ValueStateDescriptor("window-next-number", 0L))
  }

  override def changesElements: Boolean = false

  override def add(window: WindowKey, element: Any, time: java.lang.Long): Unit = {
    val number = next.value()
    next.update(number + 1)
    stored.put(NumberedKey(window.end, window.start, number), StoredElement(element, time))
  }

  /** The elements of a window as they came. */
  def elements(window: WindowKey): ArrayBuffer[TimestampedValue[Any]] =
    ArrayBuffer.from(in(window).map { entry =>
      val StoredElement(element, time) = entry.getValue
      new TimestampedValue(element, Option(time).map(_.longValue), entry.getKey.number)
    })

  private def in(window: WindowKey) =
    stored.subIterator(NumberedKey.first(window), NumberedKey.last(window))

  /** Removes one element. */
  def remove(window: WindowKey, element: TimestampedValue[Any]): Unit =
    stored.remove(NumberedKey(window.end, window.start, element.number))

  override def clear(window: WindowKey): Unit = {
    stored.removeRange(NumberedKey.first(window), NumberedKey.last(window))
    if (stored.isEmpty()) next.clear()
  }

  override def merge(target: WindowKey, sources: Seq[WindowKey]): Unit = sources.foreach { source =>
    in(source).toVector.foreach { entry =>
      stored.put(NumberedKey(target.end, target.start, entry.getKey.number), entry.getValue)
      stored.remove(entry.getKey)
    }
  }

  override def ending(end: Long): Seq[WindowKey] = Nil // nobody else could have left any
}
