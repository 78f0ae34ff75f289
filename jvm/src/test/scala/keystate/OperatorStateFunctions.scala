package keystate

import java.io.{DataInputStream, DataOutputStream}
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicBoolean

final case class Emitted(value: Long, subtask: Int, restored: Boolean, seen: Long)
final case class Seen(subtask: Int, n: Long)

/** Keeps elements back until it has `size` of them; a union list says how many each subtask saw. */
class Buffer(size: Int) extends ProcessFunction[Long, Emitted] with CheckpointedFunction {
  @transient private var kept: ListState[Long] = _
  @transient private var seen: ListState[Seen] = _
  @transient private var buffer: Vector[Long] = _
  @transient private var restored = false
  @transient private var allSeen = 0L
  @transient private var n = 0L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val store = context.getOperatorStateStore
    kept = store.getListState(ListStateDescriptor[Long]("kept"))
    seen = store.getUnionListState(ListStateDescriptor[Seen]("seen"))
    buffer = kept.get().toVector
    restored = context.isRestored
    allSeen = seen.get().map(_.n).sum
    assert(context.getRestoredCheckpointId.isDefined == restored)
  }

  private def subtask = getRuntimeContext.getIndexOfThisSubtask

  override def processElement(value: Long, ctx: Context, out: Collector[Emitted]): Unit = {
    n += 1
    buffer :+= value
    if (buffer.size >= size) {
      buffer.foreach(kept => out.collect(Emitted(kept, subtask, restored, allSeen)))
      buffer = Vector.empty
    }
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    assert(context.getCheckpointTimestamp > 0)
    kept.update(buffer)
    seen.update(Seq(Seen(subtask, n)))
  }
}

final case class Taken(value: Long, before: Int)

/** Notes each element in a union list, of which the first subtask takes all, and in one of its own;
  * fails once when it is asked to.
  */
class Takes extends ProcessFunction[Long, Taken] with CheckpointedFunction with CheckpointListener {
  @transient private var union: ListState[Long] = _
  @transient private var split: ListState[Long] = _
  @transient private var ofAll: Seq[Long] = _
  @transient private var own: Seq[Long] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val store = context.getOperatorStateStore
    union = store.getUnionListState(ListStateDescriptor[Long]("union"))
    split = store.getListState(ListStateDescriptor[Long]("split"))
    ofAll = union.get().toSeq
  }

  private def subtask = getRuntimeContext.getIndexOfThisSubtask

  override def open(ctx: RuntimeContext): Unit = own = if (subtask == 0) ofAll else Nil

  override def processElement(value: Long, ctx: Context, out: Collector[Taken]): Unit = {
    if (value == 57 && Takes.fail.getAndSet(false)) throw new IllegalStateException("once")
    own :+= value
    split.add(value)
    out.collect(Taken(value, ofAll.size))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = union.update(own)

  override def notifyCheckpointComplete(checkpointId: Long): Unit = {
    Takes.told.add(s"$subtask $checkpointId")
    ()
  }
}

object Takes {
  val fail = new AtomicBoolean
  val told = new ConcurrentLinkedQueue[String]
}

/** Keyed, with a total of its subtask's own and a log of calls; fails at 13 when it is asked to. */
class Tally
    extends KeyedProcessFunction[Long, Long, (Long, Long, Long)]
    with CheckpointedFunction
    with CheckpointListener {
  @transient private var count: ValueState[Long] = _
  @transient private var totals: ListState[Long] = _
  @transient private var total = 0L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    count = context.getKeyedStateStore.getState(ValueStateDescriptor("count", 0L))
    totals = context.getOperatorStateStore.getListState(ListStateDescriptor[Long]("totals"))
    total = totals.get().sum
  }

  override def processElement(
      value: Long,
      ctx: Context,
      out: Collector[(Long, Long, Long)]
  ): Unit = {
    count.update(count.value() + 1)
    total += value
    if (value == 13 && Tally.fail.getAndSet(false)) throw new IllegalStateException("once")
    out.collect((value, count.value(), total))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    Tally.log.add(s"snapshot ${context.getCheckpointId}")
    totals.update(Seq(total))
  }

  override def notifyCheckpointComplete(checkpointId: Long): Unit = {
    Tally.log.add(s"complete $checkpointId")
    ()
  }
}

object Tally {
  val fail = new AtomicBoolean
  val log = new ConcurrentLinkedQueue[String]
}

/** Emits what a list holds, and then keeps something else in it. */
class Holds[T](descriptor: ListStateDescriptor[T], next: T)
    extends RichFlatMapFunction[Long, String]
    with CheckpointedFunction {
  @transient private var list: ListState[T] = _

  override def initializeState(context: FunctionInitializationContext): Unit =
    list = context.getOperatorStateStore.getListState(descriptor)

  override def flatMap(value: Long, out: Collector[String]): Unit =
    out.collect(list.get().mkString(","))

  override def snapshotState(context: FunctionSnapshotContext): Unit = list.update(Seq(next))
}

/** Asks for union lists, in which each subtask keeps its number, and emits what it began with. */
class Unions(names: String*)
    extends ProcessFunction[Long, (Int, Seq[Seq[Int]])]
    with CheckpointedFunction {
  @transient private var lists: Seq[ListState[Int]] = _
  @transient private var restored: Seq[Seq[Int]] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val store = context.getOperatorStateStore
    lists = names.map(name => store.getUnionListState(ListStateDescriptor[Int](name)))
    restored = lists.map(_.get().toSeq)
  }

  private def subtask = getRuntimeContext.getIndexOfThisSubtask

  override def processElement(
      value: Long,
      ctx: Context,
      out: Collector[(Int, Seq[Seq[Int]])]
  ): Unit = out.collect((subtask, restored))

  override def snapshotState(context: FunctionSnapshotContext): Unit =
    lists.foreach(_.update(Seq(subtask)))
}

/** Does in its methods what it is told to. */
class Does(
    initialize: FunctionInitializationContext => Unit,
    process: ElementContext => Unit = _ => ()
) extends ProcessFunction[Long, Long]
    with CheckpointedFunction {
  override def initializeState(context: FunctionInitializationContext): Unit = initialize(context)
  override def processElement(value: Long, ctx: Context, out: Collector[Long]): Unit = process(ctx)
  override def snapshotState(context: FunctionSnapshotContext): Unit = ()
}

final case class RawCount(
    key: Long,
    n: Long,
    group: Int,
    subtask: Int,
    parts: Seq[Long],
    late: String
)

/** Counts rows a key in a map of its own, which it writes by key group, and notes all values in raw
  * streams of its subtask.
  */
class RawCounts extends KeyedProcessFunction[Long, Long, RawCount] with CheckpointedFunction {
  @transient private var counts: Map[Int, Map[Long, Long]] = _
  @transient private var parts: Vector[Long] = _
  @transient private var late: () => String = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    counts = context.getRawKeyedStateInputs.map { provider =>
      val in = new DataInputStream(provider.getStream)
      val entries = Seq.fill(in.readInt())(in.readLong() -> in.readLong())
      provider.getKeyGroupId -> entries.toMap
    }.toMap
    parts = context.getRawOperatorStateInputs.map { provider =>
      new DataInputStream(provider.getStream).readLong()
    }.toVector
    val inputs = context.getRawKeyedStateInputs
    late = () =>
      try inputs.size.toString
      catch { case e: KeystateException => e.code }
  }

  override def processElement(value: Long, ctx: Context, out: Collector[RawCount]): Unit = {
    val runtime = getRuntimeContext
    val key = ctx.getCurrentKey
    val group = runtime.getKeyGroup(key)
    val ofGroup = counts.getOrElse(group, Map.empty)
    val n = ofGroup.getOrElse(key, 0L) + 1
    counts += group -> (ofGroup + (key -> n))
    parts :+= value
    out.collect(RawCount(key, n, group, runtime.getIndexOfThisSubtask, parts, late()))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    val keyed = context.getRawKeyedOperatorStateOutput
    assert(counts.keySet.subsetOf(keyed.getKeyGroupList.toSet))
    val out = new DataOutputStream(keyed)
    counts.foreach { case (group, entries) =>
      keyed.startNewKeyGroup(group)
      out.writeInt(entries.size)
      entries.foreach { case (key, n) =>
        out.writeLong(key)
        out.writeLong(n)
      }
    }
    val raw = context.getRawOperatorStateOutput
    parts.foreach { value =>
      raw.startNewPartition()
      new DataOutputStream(raw).writeLong(value)
    }
  }
}

/** Writes raw keyed streams as it is told to. */
class RawMistakes(write: KeyedStateCheckpointOutputStream => Unit)
    extends RichFlatMapFunction[Long, Long]
    with CheckpointedFunction {
  override def initializeState(context: FunctionInitializationContext): Unit = ()
  override def flatMap(value: Long, out: Collector[Long]): Unit = ()
  override def snapshotState(context: FunctionSnapshotContext): Unit =
    write(context.getRawKeyedOperatorStateOutput)
}
