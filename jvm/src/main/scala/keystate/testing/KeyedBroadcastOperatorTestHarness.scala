package keystate.testing

import org.apache.spark.sql.Dataset

import keystate.{MapStateDescriptor, OutputTag, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedInputs, TestedOperator}

/** Runs a function of a stream and of broadcast elements, as
  * [[KeyedOneInputStreamOperatorTestHarness]] runs a function of a single stream. The stream may
  * have keys or none.
  *
  * @param operator
  *   applies the function to both streams, as in a query:
  *   `(sales, rates) => sales.keyBy(_.user).connect(rates.broadcast(state)).process(new Convert)`
  * @param parallelism
  *   the number of subtasks
  * @param maxParallelism
  *   the number of key groups, unless the stream sets it
  * @param sideOutputs
  *   the side outputs that [[getSideOutput]] returns
  * @param backend
  *   the backend, as in the setting `spark.keystate.backend`
  */
final class KeyedBroadcastOperatorTestHarness[IN, B, OUT](
    operator: (Dataset[IN], Dataset[B]) => Dataset[OUT],
    parallelism: Int = 1,
    maxParallelism: Int = 128,
    sideOutputs: Seq[OutputTag[_]] = Nil,
    backend: String = "hashmap"
)(implicit in: TypeInformation[IN], broadcasted: TypeInformation[B])
    extends OperatorTestHarness[OUT](maxParallelism, sideOutputs) {
  private val rows = new TestedInput(in)
  private val elements = new TestedInput(broadcasted)
  private[testing] override val tested = new TestedOperator(
    TestedInputs.Broadcast,
    Seq(rows, elements),
    () => operator(rows.stream, elements.stream),
    parallelism,
    maxParallelism,
    sideOutputs,
    backend
  )

  /** Runs a micro-batch with one element of the stream. Returns the results. */
  def processElement(element: IN): Seq[OUT] = process(Seq(element), Nil)

  /** Runs a micro-batch with one element of the stream.
    *
    * @param timestamp
    *   the value of the element's event time column, in ms. Without such a column the call is
    *   `KEYSTATE_DECLARATION`
    */
  def processElement(element: IN, timestamp: Long): Seq[OUT] =
    processAt(timestamp, Seq(element), Nil)

  /** Runs a micro-batch with one element that every subtask gets. Returns the results of all
    * subtasks.
    */
  def processBroadcastElement(element: B): Seq[OUT] = process(Nil, Seq(element))

  /** Runs a micro-batch that also moves the clocks. Clocks can't go back (`KEYSTATE_DECLARATION`).
    *
    * @param broadcast
    *   elements that come before all elements of the stream
    */
  def processBatch(
      elements: Seq[IN],
      broadcast: Seq[B] = Nil,
      watermark: Option[Long] = None,
      processingTime: Option[Long] = None
  ): Seq[OUT] = processWithClocks(watermark, processingTime, elements, broadcast)

  /** The content of a broadcast state in a subtask. A state that is not declared is
    * `KEYSTATE_DECLARATION`.
    */
  def getBroadcastState[K, V](descriptor: MapStateDescriptor[K, V], subtask: Int = 0): Map[K, V] =
    tested.broadcastState(descriptor.name, subtask).asInstanceOf[Map[K, V]]
}
