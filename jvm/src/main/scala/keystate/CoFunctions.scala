package keystate

/** Maps each element of two streams to one result. */
trait CoMapFunction[IN1, IN2, OUT] extends Serializable {

  /** The result for an element of the first stream. */
  def map1(value: IN1): OUT

  /** The result for an element of the second stream. */
  def map2(value: IN2): OUT
}

/** Maps each element of two streams to any number of results. */
trait CoFlatMapFunction[IN1, IN2, OUT] extends Serializable {

  /** Passes the results for an element of the first stream to `out`. */
  def flatMap1(value: IN1, out: Collector[OUT]): Unit

  /** Passes the results for an element of the second stream to `out`. */
  def flatMap2(value: IN2, out: Collector[OUT]): Unit
}

/** A [[CoMapFunction]] with a life cycle and state. */
abstract class RichCoMapFunction[IN1, IN2, OUT]
    extends RichFunction
    with CoMapFunction[IN1, IN2, OUT]

/** A [[CoFlatMapFunction]] with a life cycle and state. */
abstract class RichCoFlatMapFunction[IN1, IN2, OUT]
    extends RichFunction
    with CoFlatMapFunction[IN1, IN2, OUT]

/** A function of the elements of two keyed streams, which share the state and the timers of a key.
  * The watermark is the query's: the lowest watermark of its inputs, unless Spark's setting
  * `spark.sql.streaming.multipleWatermarkPolicy` says otherwise.
  */
abstract class KeyedCoProcessFunction[K, IN1, IN2, OUT] extends RichFunction {

  /** The context that `processElement1` and `processElement2` get. */
  type Context = ProcessContext[K]

  /** The context that `onTimer` gets. */
  type OnTimerContext = keystate.OnTimerContext[K]

  /** Called for each element of the first stream. */
  def processElement1(value: IN1, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each element of the second stream. */
  def processElement2(value: IN2, ctx: Context, out: Collector[OUT]): Unit

  /** Called for each timer that fires; a function that does not override it has no timers.
    *
    * @param timestamp
    *   the time that the timer was set for
    */
  def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[OUT]): Unit = ()
}
