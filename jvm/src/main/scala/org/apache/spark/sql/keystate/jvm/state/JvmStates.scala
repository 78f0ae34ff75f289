package org.apache.spark.sql.keystate.jvm.state

import scala.annotation.nowarn

import org.apache.spark.sql.catalyst.util.GenericArrayData

import keystate.errors.KeystateErrors
import keystate.{
  AggregateFunction, AggregatingState, FoldFunction, FoldingState, ListState, ReduceFunction,
  ReducingState, ValueState
}
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.spec.StateSpec
import org.apache.spark.sql.keystate.state.{FamilyEntries, ListChunks}

/** A state of a JVM function. It reads and writes its entries directly, for the current key. */
private[keystate] abstract class JvmState(spec: StateSpec, index: Int, cursor: CurrentKey) {
  protected def store: FamilyEntries = cursor.entriesOf(index)
  protected def check(): Unit = cursor.check(spec.name)

  private val byEventTime = spec.ttl.exists(_.eventTime)
  private val livesOnWhenRead = spec.ttl.exists(_.updatedOnRead)

  /** The event time at which the current element uses this state. `Long.MinValue` if its time to
    * live does not go by event time; the entries know the processing time themselves.
    */
  protected def time: Long = if (byEventTime) cursor.eventTime() else Long.MinValue

  protected def wasRead(entry: Array[Byte]): Unit = if (livesOnWhenRead) touch(entry)
  protected def wasWritten(entry: Array[Byte]): Unit = if (byEventTime) touch(entry)

  private def touch(entry: Array[Byte]): Unit = store.touch(cursor.group, entry, time)
}

/** A state that can return a value as a read after the write would. */
trait CopiesValues {

  /** A copy that nobody else has, or the value itself if it can't be changed. */
  def copyOf(value: Any): Any
}

/** Value state. Until the next element it keeps the last read or written value: the object, if that
  * can't be changed, else its bytes, from which each read makes an object. So changing an object
  * changes no state.
  */
private[keystate] final class JvmValueState(
    spec: StateSpec,
    index: Int,
    codec: ObjectCodec,
    cursor: CurrentKey,
    default: Any
) extends JvmState(spec, index, cursor)
    with ValueState[Any]
    with CopiesValues {
  private var readFor = -1L
  private var plain: Any = _ // the value, if the codec says that values are plain
  private var bytes: Array[Byte] = _ // else its stored form; null if there is none
  private val encodedDefault = if (default == null || codec.isPlain) null else encode(default)

  private def encode(value: Any): Array[Byte] =
    KeystateErrors.inState(spec.name, spec.describe)(codec.encode(value))

  private def decode(bytes: Array[Byte]): Any = if (bytes == null) null else codec.decode(bytes)

  override def copyOf(value: Any): Any =
    KeystateErrors.inState(spec.name, spec.describe)(codec.copy(value))

  private def newDefault(): Any =
    if (encodedDefault == null) default else codec.decode(encodedDefault)

  override def value(): Any = {
    val stored = read()
    if (stored == null) newDefault() else stored
  }

  /** The stored value. Null if there is none: the default is not used. */
  def read(): Any = {
    check()
    if (readFor != cursor.element) {
      keep(store.get(cursor.group, cursor.key))
      wasRead(cursor.key)
    }
    if (codec.isPlain) plain else decode(bytes)
  }

  private def keep(stored: Array[Byte]): Unit = {
    if (codec.isPlain) plain = decode(stored) else bytes = stored
    readFor = cursor.element
  }

  override def update(value: Any): Unit =
    if (value == null) clear()
    else {
      check()
      val encoded = encode(value)
      store.put(cursor.group, cursor.key, encoded)
      wasWritten(cursor.key)
      cursor.updated += 1
      if (codec.isPlain) plain = value else bytes = encoded
      readFor = cursor.element
    }

  override def clear(): Unit = {
    check()
    store.remove(cursor.group, cursor.key)
    cursor.removed += 1
    keep(null)
  }
}

private[keystate] final class JvmReducingState(
    value: ValueState[Any],
    function: ReduceFunction[Any]
) extends ReducingState[Any] {
  override def get(): Any = value.value()
  override def add(added: Any): Unit = {
    val before = value.value()
    value.update(if (before == null || added == null) added else function.reduce(before, added))
  }
  override def clear(): Unit = value.clear()
}

private[keystate] final class JvmAggregatingState(
    accumulator: JvmValueState,
    function: AggregateFunction[Any, Any, Any]
) extends AggregatingState[Any, Any] {
  override def get(): Any = {
    val current = accumulator.value()
    if (current == null) null else function.getResult(current)
  }
  override def add(added: Any): Unit =
    if (added == null) clear()
    else {
      val current = accumulator.value()
      accumulator.update(function.add(added, if (current == null) first() else current))
    }

  // A copy: the function may give all keys one object.
  private def first(): Any = accumulator.copyOf(function.createAccumulator())

  override def clear(): Unit = accumulator.clear()
}

/** List state, stored in the chunks that [[ListChunks]] describes. */
private[keystate] final class JvmListState(
    spec: StateSpec,
    index: Int,
    codec: ObjectCodec,
    cursor: CurrentKey
) extends JvmState(spec, index, cursor)
    with ListState[Any] {
  private val chunks = new ListChunks(spec)

  override def get(): Iterable[Any] = {
    check()
    val stored = chunks.read(store, cursor.group, cursor.key)
    stored.foreach(chunk => wasRead(chunk.key))
    stored.view.flatMap { chunk =>
      val elements = chunks.decode(chunk.value)
      (0 until elements.numElements()).iterator.map(codec.fromField(elements, _))
    }
  }

  override def add(value: Any): Unit = addAll(Iterator.single(value))

  override def addAll(values: IterableOnce[Any]): Unit = append(encoded(values))

  // Each value is encoded immediately: an iterator may return the same object again with another
  // content.
  private def encoded(values: IterableOnce[Any]): Array[Any] = {
    check()
    KeystateErrors.inState(spec.name, spec.describe)(values.iterator.map(codec.field).toArray[Any])
  }

  private def append(elements: Array[Any]): Unit =
    if (elements.nonEmpty) {
      val list = new GenericArrayData(elements)
      wasWritten(chunks.append(store, cursor.group, cursor.key, list, time))
      cursor.updated += 1
    }

  override def update(values: IterableOnce[Any]): Unit = {
    // Read before the list is cleared: `values` may be the elements of this list.
    val replacing = encoded(values)
    clear()
    append(replacing)
  }

  override def clear(): Unit = {
    check()
    cursor.removed += store.clear(cursor.group, cursor.key)
  }
}

@nowarn("cat=deprecation")
private[keystate] final class JvmFoldingState(
    accumulator: JvmValueState,
    function: FoldFunction[Any, Any]
) extends FoldingState[Any, Any] {
  override def get(): Any = accumulator.read()
  override def add(added: Any): Unit =
    if (added == null) clear()
    else
      accumulator.update(function.fold(accumulator.value(), added))
  override def clear(): Unit = accumulator.clear()
}
