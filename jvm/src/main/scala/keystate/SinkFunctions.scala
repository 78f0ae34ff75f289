package keystate

/** Takes elements out of the query; pass it to `addSink`.
  *
  * Override one of the two `invoke` methods. When a micro-batch is run again, its elements come
  * again. To write each element only once, write by an id, or keep elements back until a
  * [[CheckpointListener]] receives the completion of their micro-batch.
  */
trait SinkFunction[IN] extends Serializable {

  /** Takes an element. */
  def invoke(value: IN): Unit = throw new UnsupportedOperationException(
    s"${getClass.getName} overrides neither invoke(value) nor invoke(value, context)"
  )

  /** Takes an element with its times. */
  def invoke(value: IN, context: SinkFunction.Context): Unit = invoke(value)
}

object SinkFunction {

  /** The context of the current element. Use it only within the call that got it. All times are
    * milliseconds since the epoch.
    */
  trait Context {

    /** See [[TimerService.currentProcessingTime]]. */
    def currentProcessingTime(): Long

    /** See [[TimerService.currentWatermark]]. */
    def currentWatermark(): Long

    /** The element's event time; null when there is none. */
    def timestamp(): java.lang.Long
  }
}

/** A [[SinkFunction]] with a life cycle and state. */
abstract class RichSinkFunction[IN] extends RichFunction with SinkFunction[IN]
