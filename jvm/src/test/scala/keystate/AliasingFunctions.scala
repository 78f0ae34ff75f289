package keystate

import java.sql.Timestamp

import scala.annotation.nowarn
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Row

import keystate.windows.{ProcessWindowFunction, TimeWindow, WindowRuntimeContext}

final case class Box(var n: Long)
final case class Wrapped(xs: Array[Long], name: String)

/** A type whose values can be changed, seen as numbers. */
abstract class Changeable[T](val name: String)(implicit val info: TypeInformation[T])
    extends Serializable {
  def of(n: Long): T
  def in(value: T): Long
  def set(value: T, n: Long): Unit

  /** One object, again and again with another content. */
  def refilled(numbers: Long*): Iterator[T] = {
    val scratch = of(0)
    numbers.iterator.map { n =>
      set(scratch, n)
      scratch
    }
  }

  def add(sum: T, n: T): T = {
    set(sum, in(sum) + in(n))
    sum
  }
}

object Changeable {
  val all: Seq[Changeable[_]] = Seq(
    new Changeable[Box]("var") {
      override def of(n: Long): Box = Box(n)
      override def in(value: Box): Long = value.n
      override def set(value: Box, n: Long): Unit = value.n = n
    },
    new Changeable[Array[Long]]("array") {
      override def of(n: Long): Array[Long] = Array(n)
      override def in(value: Array[Long]): Long = value(0)
      override def set(value: Array[Long], n: Long): Unit = value(0) = n
    },
    new Changeable[Wrapped]("case class") {
      override def of(n: Long): Wrapped = Wrapped(Array(n), "x")
      override def in(value: Wrapped): Long = value.xs(0)
      override def set(value: Wrapped, n: Long): Unit = value.xs(0) = n
    },
    new Changeable[ArrayBuffer[Long]]("buffer") {
      override def of(n: Long): ArrayBuffer[Long] = ArrayBuffer(n)
      override def in(value: ArrayBuffer[Long]): Long = value(0)
      override def set(value: ArrayBuffer[Long], n: Long): Unit = value(0) = n
    },
    new Changeable[(String, Option[Box])]("tuple") {
      override def of(n: Long): (String, Option[Box]) = ("x", Some(Box(n)))
      override def in(value: (String, Option[Box])): Long = value._2.get.n
      override def set(value: (String, Option[Box]), n: Long): Unit = value._2.get.n = n
    },
    new Changeable[Timestamp]("timestamp") {
      override def of(n: Long): Timestamp = new Timestamp(n)
      override def in(value: Timestamp): Long = value.getTime
      override def set(value: Timestamp, n: Long): Unit = value.setTime(n)
    },
    new Changeable[Row]("row")(TypeInformation.ddl[Row]("xs array<long>")) {
      private def numbers(value: Row) = value.getAs[mutable.Seq[Long]](0)
      override def of(n: Long): Row = Row(mutable.ArraySeq(n))
      override def in(value: Row): Long = numbers(value)(0)
      override def set(value: Row, n: Long): Unit = numbers(value)(0) = n
    }
  )
}

/** What a check should have found, and what it found. */
final case class Found(name: String, wanted: Seq[Long], found: Seq[Long])

/** An accumulator that is one object for all keys. */
class OneAccumulator[T](kind: Changeable[T]) extends AggregateFunction[T, T, T] {
  @transient private lazy val only: T = kind.of(0)
  override def createAccumulator(): T = only
  override def add(value: T, sum: T): T = kind.add(sum, value)
  override def getResult(sum: T): T = sum
  override def merge(a: T, b: T): T = kind.add(a, b)
}

/** The states of one type. In each check an object that was handed over or read is changed then. */
@nowarn("cat=deprecation")
class ChangedStates[T](kind: Changeable[T], store: KeyedStateStore, operator: OperatorStateStore) {
  import kind.{in, info, of, refilled, set}
  private val changed = 99L
  private val default = of(5)
  private val initial = of(6)
  private def name(of: String) = s"${kind.name}-$of"

  private val value = store.getState(ValueStateDescriptor[T](name("value")))
  private val unset = store.getState(ValueStateDescriptor(name("unset"), default))
  private val list = store.getListState(ListStateDescriptor[T](name("list")))
  private val map = store.getMapState(MapStateDescriptor[Long, T](name("map")))
  private val byValue = store.getMapState(MapStateDescriptor[T, Long](name("by value")))
  private val sorted = store.getSortedMapState(SortedMapStateDescriptor[Long, T](name("sorted")))
  private val sum: ReduceFunction[T] = kind.add(_, _)
  private val reducing = store.getReducingState(ReducingStateDescriptor(name("reducing"), sum))
  private val aggregating = store.getAggregatingState(
    AggregatingStateDescriptor[T, T, T](name("aggregating"), new OneAccumulator(kind))
  )
  private val folded: FoldFunction[T, T] = kind.add(_, _)
  private val folding =
    store.getFoldingState(FoldingStateDescriptor[T, T](name("folding"), initial, folded))
  private val kept = operator.getListState(ListStateDescriptor[T](name("kept")))
  private val union = operator.getUnionListState(ListStateDescriptor[T](name("union")))
  set(default, changed)
  set(initial, changed)

  private def all(values: Iterable[T]): Seq[Long] = values.map(in).toSeq
  private def one(value: T): Seq[Long] = Seq(in(value))
  private def change(values: Iterable[T]): Unit = values.foreach(set(_, changed))

  /** The object, which is changed after it was used. */
  private def handedOver(n: Long)(use: T => Unit): Unit = {
    val own = of(n)
    use(own)
    set(own, changed)
  }

  /** Writes all states, and reads them within the same call. */
  def write(): Seq[Found] = {
    handedOver(1)(value.update)
    set(value.value(), changed)
    set(unset.value(), changed)
    handedOver(1)(list.add)
    list.addAll(refilled(2, 3))
    change(list.get())
    handedOver(1)(map.put(1, _))
    map.putAll(refilled(2, 3).map(own => in(own) -> own))
    change(map.values())
    set(map.get(1), changed)
    handedOver(1)(byValue.put(_, 1))
    byValue.keys().foreach(set(_, changed))
    sorted.putAll(refilled(1, 2).map(own => in(own) -> own))
    set(sorted.firstEntry().getValue, changed)
    handedOver(1)(reducing.add)
    set(reducing.get(), changed)
    handedOver(2)(reducing.add)
    handedOver(1)(aggregating.add)
    set(aggregating.get(), changed)
    handedOver(2)(aggregating.add)
    handedOver(1)(folding.add)
    set(folding.get(), changed)
    Seq(kept, union).foreach { own =>
      handedOver(1)(own.add)
      own.addAll(refilled(2, 3))
      change(own.get())
    }
    read()
  }

  def read(): Seq[Found] = Seq(
    ("value", Seq(1L), one(value.value())),
    ("default", Seq(5L), one(unset.value())),
    ("list", Seq(1L, 2L, 3L), all(list.get())),
    ("map", Seq(1L, 2L, 3L), all(map.values()).sorted),
    ("map's keys", Seq(1L), all(byValue.keys())),
    ("sorted map", Seq(1L, 2L), all(sorted.values())),
    ("reducing", Seq(3L), one(reducing.get())),
    ("aggregating", Seq(3L), one(aggregating.get())),
    ("folding", Seq(7L), one(folding.get())),
    ("operator list", Seq(1L, 2L, 3L), all(kept.get())),
    ("union list", Seq(1L, 2L, 3L), all(union.get()))
  ).map { case (check, wanted, found) => Found(s"${kind.name}: $check", wanted, found) }

  /** Replaces lists by what one object was, again and again. */
  def replace(): Seq[Found] = Seq("list" -> list, "operator list" -> kept).map {
    case (check, own) =>
      own.update(refilled(7, 8))
      Found(s"${kind.name}: update of $check", Seq(7, 8), all(own.get()))
  }

  /** For another key, which finds nothing of the first one's. */
  def other(): Seq[Found] = {
    aggregating.add(of(4))
    folding.add(of(4))
    Seq(
      Found(s"${kind.name}: another key's accumulator", Seq(4), one(aggregating.get())),
      Found(s"${kind.name}: another key's initial value", Seq(10), one(folding.get())),
      Found(s"${kind.name}: another key's default", Seq(5), one(unset.value()))
    )
  }
}

/** Runs the checks of all types. The element says which of them. */
class ChangesValues
    extends KeyedProcessFunction[String, (String, String), Found]
    with CheckpointedFunction {
  @transient private var states: Seq[ChangedStates[_]] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val (keyed, operator) = (context.getKeyedStateStore, context.getOperatorStateStore)
    states = Changeable.all.map(kind => new ChangedStates(kind, keyed, operator))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = ()

  override def processElement(step: (String, String), ctx: Context, out: Collector[Found]): Unit = {
    val checked = step._2 match {
      case "write" => states.flatMap(_.write())
      case "read" => states.flatMap(_.read())
      case "replace" => states.flatMap(_.replace())
      case "other" => states.flatMap(_.other())
    }
    checked.foreach(out.collect)
  }
}

/** Emits one object twice, with two contents, also to a side output. */
class EmitsOneObject(side: OutputTag[Box]) extends KeyedProcessFunction[Array[Byte], Box, Box] {
  override def processElement(in: Box, ctx: Context, out: Collector[Box]): Unit = {
    ctx.getCurrentKey(0) = 99
    assert(ctx.getCurrentKey.sameElements(Array[Byte](1)))
    val scratch = Box(1)
    out.collect(scratch)
    ctx.output(side, scratch)
    scratch.n = 2
    out.collect(scratch)
    ctx.output(side, scratch)
    scratch.n = 3
  }
}

/** Changes what it puts into broadcast state, and what it reads of it. */
class ChangesBroadcast(state: MapStateDescriptor[Long, Box])
    extends KeyedBroadcastProcessFunction[Long, Long, Long, Long] {
  override def processBroadcastElement(n: Long, ctx: Context, out: Collector[Long]): Unit = {
    val boxes = ctx.getBroadcastState(state)
    val scratch = Box(n)
    boxes.put(n, scratch)
    scratch.n = 99
    boxes.get(n).n = 98
    boxes.entries().foreach(_.getValue.n = 97)
  }

  override def processElement(n: Long, ctx: ReadOnlyContext, out: Collector[Long]): Unit = {
    ctx.getBroadcastState(state).get(n).n = 96
    out.collect(ctx.getBroadcastState(state).get(n).n)
  }
}

final case class Measured(key: String, var n: Long, at: Timestamp)

/** Sums into the first, and spoils the second. */
class SpoilsSecond extends ReduceFunction[Measured] {
  override def reduce(sum: Measured, added: Measured): Measured = {
    sum.n += added.n
    added.n = -1000
    sum
  }
}

/** Sums into one accumulator for all windows, and spoils the elements. */
class OneSum extends AggregateFunction[Measured, Box, Long] {
  @transient private lazy val only = Box(0)
  override def createAccumulator(): Box = only
  override def add(reading: Measured, sum: Box): Box = {
    sum.n += reading.n
    reading.n = -1000
    sum
  }
  override def getResult(sum: Box): Long = sum.n
  override def merge(a: Box, b: Box): Box = Box(a.n + b.n)
}

/** Changes the default of a window's state, its list and its accumulator. */
class ChangesWindowStates extends ProcessWindowFunction[Measured, Seq[Long], String, TimeWindow] {
  @transient private var unset: ValueState[Box] = _
  @transient private var list: ListState[Box] = _
  @transient private var sum: AggregatingState[Measured, Long] = _

  override def open(context: WindowRuntimeContext): Unit = {
    val default = Box(5)
    unset = context.windowState.getState(ValueStateDescriptor("unset", default))
    default.n = 99
    list = context.windowState.getListState(ListStateDescriptor[Box]("list"))
    sum = context.windowState.getAggregatingState(AggregatingStateDescriptor("sum", new OneSum))
  }

  override def process(
      key: String,
      context: Context,
      elements: Iterable[Measured],
      out: Collector[Seq[Long]]
  ): Unit = {
    unset.value().n += 1
    list.add(Box(1))
    list.update(Changeable.all.head.asInstanceOf[Changeable[Box]].refilled(7, 8))
    sum.add(Measured(key, elements.map(_.n).sum, elements.head.at))
    out.collect(Seq(unset.value().n, sum.get()) ++ list.get().map(_.n))
  }
}
