package keystate.windows

import scala.collection.mutable.ArrayBuffer
import scala.util.Try

import keystate.errors.KeystateErrors
import keystate.{
  AggregateFunction, KeyOrder, KeyedStateStore, ReduceFunction, RichFunction, RuntimeContext,
  SortedMapState, SortedMapStateDescriptor, TypeInformation, ValueState, ValueStateDescriptor
}
import org.apache.spark.sql.keystate.encoding.ValueCopies
import org.apache.spark.sql.keystate.jvm.WindowedFunction

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
    copies.fold[Any](created) { copy =>
      KeystateErrors.inAccumulator(function.getClass.getName, copy.typeName)(copy(created))
    }
  }

  override def merge(a: Any, b: Any): Any = function.merge(a, b)
  override def result(accumulator: Any): Any = function.getResult(accumulator)
}

/** What the windows of a key hold. It is told on the driver, and opened in a subtask. */
private[keystate] sealed abstract class Contents extends Serializable {

  /** What a window holds, as the checkpoint records it. */
  def kind: String

  /** Gets the states. */
  def open(store: KeyedStateStore): Unit

  /** Whether `add` gives elements to a function of the user's, which may change them. */
  def changesElements: Boolean

  /** Adds an element with its event time, if it has one; returns whether it can be the window's
    * first.
    */
  def add(window: WindowKey, element: Any, time: java.lang.Long): Boolean

  /** Whether there is such a window; others than merged ones need not be told apart. */
  def contains(window: WindowKey): Boolean = true

  /** Empties a window. */
  def clear(window: WindowKey): Unit

  /** Removes a window with what it holds. */
  def remove(window: WindowKey): Unit = clear(window)
}

private[windows] object Contents {

  /** The names of the states. */
  val Seq(accumulators, sessions, elements) = WindowedFunction.Contents: @unchecked
}

/** An accumulator for each window. */
private[keystate] class FoldedContents(val fold: Fold) extends Contents {
  @transient protected var accumulators: SortedMapState[WindowKey, Any] = _

  /** Of the state. */
  protected def name: String = Contents.accumulators

  override def kind: String = "an accumulator each"

  override def open(store: KeyedStateStore): Unit =
    accumulators = store.getSortedMapState(
      new SortedMapStateDescriptor(
        name,
        KeyOrder.NATURAL,
        WindowStates.Key,
        fold.accumulatorType.asInstanceOf[TypeInformation[Any]]
      )
    )

  override def changesElements: Boolean = true

  override def add(window: WindowKey, element: Any, time: java.lang.Long): Boolean = {
    val accumulator = accumulators.get(window)
    accumulators.put(window, fold.add(element, accumulator))
    accumulator == null
  }

  /** What a window holds; null if that is nothing. */
  def accumulator(window: WindowKey): Any = accumulators.get(window)

  override def clear(window: WindowKey): Unit = accumulators.remove(window)
}

/** An element as it is kept; `row` is of the user's type. Python names the fields the same. */
private[keystate] final case class StoredElement(row: Any, time: java.lang.Long)

/** The elements of each window: an entry for each, numbered as they came. */
private[keystate] class ListedContents(elementType: TypeInformation[_]) extends Contents {
  private val time: TypeInformation[java.lang.Long] = implicitly
  @transient private var stored: SortedMapState[NumberedKey, StoredElement] = _
  @transient private var next: ValueState[Long] = _

  override def open(store: KeyedStateStore): Unit = {
    stored = store.getSortedMapState(
      new SortedMapStateDescriptor(
        Contents.elements,
        KeyOrder.NATURAL,
        WindowStates.Numbered,
        TypeInformation.struct[StoredElement]("row" -> elementType, "time" -> time)
      )
    )
    next = store.getState(ValueStateDescriptor("window-next-number", 0L))
  }

  override def kind: String = "its rows"

  override def changesElements: Boolean = false

  override def add(window: WindowKey, element: Any, time: java.lang.Long): Boolean = {
    val number = next.value()
    next.update(number + 1)
    stored.put(NumberedKey(window.end, window.start, number), StoredElement(element, time))
    true
  }

  /** The elements of a window as they came. */
  def elements(window: WindowKey): ArrayBuffer[TimestampedValue[Any]] =
    ArrayBuffer.from(in(window).map { entry =>
      val StoredElement(element, time) = entry.getValue
      new TimestampedValue(element, Option(time).map(_.longValue), entry.getKey.number)
    })

  /** The window under which the elements of a window are. */
  protected def holderOf(window: WindowKey): WindowKey = window

  private def in(window: WindowKey) = {
    val holder = holderOf(window)
    stored.subIterator(NumberedKey.first(holder), NumberedKey.last(holder))
  }

  /** Removes one element. */
  def evict(window: WindowKey, element: TimestampedValue[Any]): Unit = {
    val holder = holderOf(window)
    stored.remove(NumberedKey(holder.end, holder.start, element.number))
  }

  override def clear(window: WindowKey): Unit = {
    val holder = holderOf(window)
    stored.removeRange(NumberedKey.first(holder), NumberedKey.last(holder))
    if (stored.isEmpty()) next.clear()
  }

  /** Has the elements of a window be under another one. */
  protected def moveElements(window: WindowKey, target: WindowKey): Unit =
    in(window).toVector.foreach { entry =>
      stored.put(NumberedKey(target.end, target.start, entry.getKey.number), entry.getValue)
      stored.remove(entry.getKey)
    }
}
