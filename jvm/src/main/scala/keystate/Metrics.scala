package keystate

/** Counts up and down. */
trait Counter {

  /** Adds 1. */
  def inc(): Unit = inc(1)

  /** Adds to the count. */
  def inc(n: Long): Unit

  /** Takes 1 from the count. */
  def dec(): Unit = inc(-1)

  /** Takes from the count. */
  def dec(n: Long): Unit = inc(-n)

  /** The count since this function was opened. */
  def getCount: Long
}

/** Counts events. To get a rate, divide the count in the progress by the progress's duration: tasks
  * read no clock.
  */
trait Meter {

  /** Counts an event. */
  def markEvent(): Unit = markEvent(1)

  /** Counts some events. */
  def markEvent(n: Long): Unit

  /** The events since this function was opened. */
  def getCount: Long
}

/** Number, sum, minimum and maximum of values; Flink has a histogram instead. */
trait Distribution {

  /** Adds a value. */
  def update(value: Long): Unit
}

/** A value that is read at the end of each micro-batch. */
trait Gauge[T] {

  /** The value as it is now. */
  def getValue(): T
}

/** Gives a function its own metrics. The query's progress shows them for each micro-batch, over all
  * subtasks. Create them in `open`, unconditionally. The same name and kind give the same metric;
  * the same name with another kind is a [[KeystateException]], `KEYSTATE_DECLARATION`.
  */
trait MetricGroup {

  /** Shown in the progress as `name`: the count of the micro-batch. */
  def counter(name: String): Counter

  /** Shown in the progress as `name`, like a counter. */
  def meter(name: String): Meter

  /** Shown in the progress as `name.count` and `name.sum`, and as `name.min` and `name.max` if
    * there was a value.
    */
  def distribution(name: String): Distribution

  /** Shown in the progress as `name.sum`, `name.min` and `name.max`. Returns the gauge, which can
    * be a function: `gauge("held", () => held)`.
    */
  def gauge(name: String, gauge: Gauge[Long]): Gauge[Long]

  /** A group within this one: `addGroup("a").counter("b")` is named `a.b`. */
  def addGroup(name: String): MetricGroup

  /** A group in a group: its metrics' names begin with `key.value.`. */
  def addGroup(key: String, value: String): MetricGroup = addGroup(key).addGroup(value)
}
