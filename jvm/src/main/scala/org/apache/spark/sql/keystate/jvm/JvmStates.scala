package org.apache.spark.sql.keystate.jvm

import scala.annotation.nowarn

import org.apache.spark.sql.catalyst.util.GenericArrayData

import keystate.{
  AggregateFunction,
  AggregatingState,
  FoldFunction,
  FoldingState,
  ListState,
  ReduceFunction,
  ReducingState,
  ValueState
}
import keystate.backend.{GroupedKey, StateEntries}
import keystate.errors.KeystateErrors
import keystate.ttl.TtlEntries
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.spec.StateSpec
import org.apache.spark.sql.keystate.state.ListChunks

/** A state of a JVM function. It reads and writes its entries directly, for the current key. */
private[keystate] abstract class JvmState(spec: StateSpec, index: Int, cursor: CurrentKey) {
  protected def family: Int = cursor.familyOf(index)
  protected def store: StateEntries = cursor.entriesOf(index)
  protected def check(): Unit = cursor.check(spec.name)

  private val byEventTime = spec.ttl.exists(_.eventTime)
  private val livesOnWhenRead = spec.ttl.exists(_.updatedOnRead)

  /** The event time at which the current element uses this state. `Long.MinValue` if its time to
    * live does not go by event time; the entries know the processing time themselves.
    */
  protected def time: Long = if (byEventTime) cursor.eventTime() else Long.MinValue

  protected def wasRead(entry: Array[Byte]): Unit = if (livesOnWhenRead) touch(entry)
  protected def wasWritten(entry: Array[Byte]): Unit = if (byEventTime) touch(entry)

  private def touch(entry: Array[Byte]): Unit = store match {
    case ttl: TtlEntries => ttl.touch(family, cursor.group, entry, time)
    case _ => // a batch query, in which nothing expires
  }
}

/** Value state. It keeps the object that it read until the next element. */
private[keystate] final class JvmValueState(
    spec: StateSpec,
    index: Int,
    codec: ObjectCodec,
    cursor: CurrentKey,
    default: Any
) extends JvmState(spec, index, cursor)
    with ValueState[Any] {
  private var readFor = -1L
  private var current: Any = _
  // Encoded, so that each key can get an object of its own: a function may change that in place.
  private lazy val encodedDefault =
    KeystateErrors.inState(spec.name, spec.describe)(codec.encode(default))

  /** The default, as an object of this key's own. Null if there is none. */
  private def newDefault(): Any =
    if (default == null || JvmValueState.isImmutable(default)) default
    else codec.decode(encodedDefault)

  override def value(): Any = {
    val stored = read()
    if (stored == null) newDefault() else stored
  }

  /** The stored value. Null if there is none: the default is not used. */
  def read(): Any = {
    check()
    if (readFor != cursor.element) {
      val bytes = store.get(family, cursor.group, cursor.key)
      current = if (bytes == null) null else codec.decode(bytes)
      wasRead(cursor.key)
      readFor = cursor.element
    }
    current
  }

  override def update(value: Any): Unit =
    if (value == null) clear()
    else {
      check()
      val bytes = KeystateErrors.inState(spec.name, spec.describe)(codec.encode(value))
      store.put(family, cursor.group, cursor.key, bytes)
      wasWritten(cursor.key)
      cursor.updated += 1
      current = value
      readFor = cursor.element
    }

  override def clear(): Unit = {
    check()
    store.remove(family, cursor.group, cursor.key)
    cursor.removed += 1
    current = null
    readFor = cursor.element
  }
}

private object JvmValueState {
  private def isImmutable(value: Any): Boolean = value match {
    case _: java.lang.Number | _: String | _: java.lang.Boolean | _: java.lang.Character => true
    case _: java.time.temporal.TemporalAccessor => true
    case _ => false
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
    accumulator: ValueState[Any],
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
      accumulator.update(
        function.add(added, if (current == null) function.createAccumulator() else current)
      )
    }
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
    val stored = chunks.read(store, family, cursor.group, cursor.key)
    stored.foreach(chunk => wasRead(chunk.key))
    stored.view.flatMap { chunk =>
      val elements = chunks.decode(chunk.value)
      (0 until elements.numElements()).iterator.map(codec.fromField(elements, _))
    }
  }

  override def add(value: Any): Unit = addAll(Iterator.single(value))

  override def addAll(values: IterableOnce[Any]): Unit = {
    check()
    val elements = KeystateErrors.inState(spec.name, spec.describe)(
      values.iterator.map(codec.field).toArray[Any]
    )
    if (elements.nonEmpty) {
      val list = new GenericArrayData(elements)
      wasWritten(chunks.append(store, family, cursor.group, cursor.key, list, time))
      cursor.updated += 1
    }
  }

  override def update(values: IterableOnce[Any]): Unit = {
    // Read before the list is cleared: `values` may be the elements of this list.
    val replacing = values.iterator.toArray[Any]
    clear()
    addAll(replacing)
  }

  override def clear(): Unit = {
    check()
    cursor.removed += GroupedKey.clear(store, family, cursor.group, cursor.key)
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
    else {
      accumulator.update(function.fold(accumulator.value(), added))
    }
  override def clear(): Unit = accumulator.clear()
}
