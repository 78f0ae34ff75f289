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

/** Counts events. For their rate divide the count in the progress by its duration: tasks look at no
  * clock.
  */
trait Meter {

  /** Counts an event. */
  def markEvent(): Unit = markEvent(1)

  /** Counts some events. */
  def markEvent(n: Long): Unit

  /** The events since this function was opened. */
  def getCount: Long
}

/** Number, sum, least and greatest of some values; Flink has a histogram of them. */
trait Distribution {

  /** Adds a value. */
  def update(value: Long): Unit
}

/** A value that is asked for at the end of each micro-batch. */
trait Gauge[T] {

  /** The value as it is now. */
  def getValue(): T
}

/** Gives a function metrics of its own, which the query's progress shows for each micro-batch, over
  * all subtasks. Ask for them in `open`, unconditionally. What is asked for twice is the same metric;
  * with another kind it is a [[KeystateException]], `KEYSTATE_DECLARATION`.
  */
trait MetricGroup {

  /** In the progress `name`: what was counted in the micro-batch. */
  def counter(name: String): Counter

  /** In the progress `name`, as a counter. */
  def meter(name: String): Meter

  /** In the progress `name.count` and `name.sum`, and `name.min` and `name.max` if there was a value.
    */
  def distribution(name: String): Distribution

  /** In the progress `name.sum`, `name.min` and `name.max`. Returns the gauge, which can be a function:
    * `gauge("held", () => held)`.
    */
  def gauge(name: String, gauge: Gauge[Long]): Gauge[Long]

  /** A group within this one: `addGroup("a").counter("b")` is named `a.b`. */
  def addGroup(name: String): MetricGroup

  /** A group in a group: its metrics' names begin with `key.value.`. */
  def addGroup(key: String, value: String): MetricGroup = addGroup(key).addGroup(value)
}
