package keystate

import java.util
import java.util.Collections
import java.util.concurrent.ConcurrentLinkedQueue

import scala.annotation.nowarn
import scala.collection.convert.ImplicitConversions._
import scala.collection.mutable.ListBuffer

/** The examples of Flink's documentation, in its spelling. */
class CountWindowAverage extends RichFlatMapFunction[(Long, Long), (Long, Long)] {
  @transient private var sum: ValueState[(Long, Long)] = _

  override def flatMap(input: (Long, Long), out: Collector[(Long, Long)]): Unit = {
    // access the state value
    val tmpCurrentSum = sum.value()

    // If it hasn't been used before, it will be null
    val currentSum = if (tmpCurrentSum != null) tmpCurrentSum else (0L, 0L)

    // update the count
    val newSum = (currentSum._1 + 1, currentSum._2 + input._2)

    // update the state
    sum.update(newSum)

    // if the count reaches 2, emit the average and clear the state
    if (newSum._1 >= 2) {
      out.collect((input._1, newSum._2 / newSum._1))
      sum.clear()
    }
  }

  override def open(parameters: Configuration): Unit =
    sum = getRuntimeContext.getState(
      new ValueStateDescriptor[(Long, Long)]("average", createTypeInformation[(Long, Long)])
    )
}

class CountWindowFirstEntry extends RichFlatMapFunction[(Long, Long), (Long, Long, Long)] {
  @transient private var state: SortedMapState[java.lang.Long, java.lang.Long] = _

  override def flatMap(input: (Long, Long), out: Collector[(Long, Long, Long)]): Unit = {
    // access the state value
    val tmpCurrentCount = state.get(input._2)

    // If it hasn't been used before, it will be null
    val count: Long = if (tmpCurrentCount != null) tmpCurrentCount else 0L

    // update the state
    state.put(input._2, count + 1)

    val entry = state.firstEntry()
    out.collect((input._1, entry.getKey, entry.getValue))
  }

  override def open(parameters: Configuration): Unit =
    state = getRuntimeContext.getSortedMapState(
      new SortedMapStateDescriptor[java.lang.Long, java.lang.Long](
        "sortedmapstate",
        BytewiseComparator.LONG_INSTANCE,
        classOf[java.lang.Long],
        classOf[java.lang.Long]
      )
    )
}

class BufferingSink(threshold: Int = 0)
    extends SinkFunction[(String, Int)]
    with CheckpointedFunction {
  @transient private var checkpointedState: ListState[(String, Int)] = _

  private val bufferedElements = ListBuffer[(String, Int)]()

  override def invoke(value: (String, Int)): Unit = {
    bufferedElements += value
    if (bufferedElements.size == threshold) {
      for (element <- bufferedElements)
        // send it to the sink
        BufferingSink.sent.add(element)
      bufferedElements.clear()
    }
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    checkpointedState.clear()
    for (element <- bufferedElements)
      checkpointedState.add(element)
  }

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val descriptor = new ListStateDescriptor[(String, Int)](
      "buffered-elements",
      TypeInformation.of(new TypeHint[(String, Int)]() {})
    )

    checkpointedState = context.getOperatorStateStore.getListState(descriptor)

    if (context.isRestored)
      for (element <- checkpointedState.get())
        bufferedElements += element
  }
}

object BufferingSink {

  /** What the tests' sink got. */
  val sent = new ConcurrentLinkedQueue[(String, Int)]
}

@nowarn("cat=deprecation") // of the import by which a list of Java can be gone through
class CounterSource extends RichParallelSourceFunction[Long] with ListCheckpointed[Long] {
  @volatile
  private var isRunning = true

  private var offset = 0L

  override def run(ctx: SourceFunction.SourceContext[Long]): Unit = {
    val lock = ctx.getCheckpointLock

    while (isRunning)
      // output and state update are atomic
      lock.synchronized {
        ctx.collect(offset)

        offset += 1
      }
  }

  override def cancel(): Unit = isRunning = false

  override def restoreState(state: util.List[Long]): Unit =
    for (s <- state)
      offset = s

  override def snapshotState(checkpointId: Long, timestamp: Long): util.List[Long] =
    Collections.singletonList(offset)
}
