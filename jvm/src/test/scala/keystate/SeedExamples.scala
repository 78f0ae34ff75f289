package keystate

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
