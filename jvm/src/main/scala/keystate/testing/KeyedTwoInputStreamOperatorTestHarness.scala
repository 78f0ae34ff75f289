package keystate.testing

import org.apache.spark.sql.Dataset

import keystate.{OutputTag, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedInputs, TestedOperator}

/** Runs a function of two keyed streams, as [[KeyedOneInputStreamOperatorTestHarness]] runs a
  * function of a single stream.
  *
  * @param operator
  *   applies the function to both streams, as in a query:
  *   `(clicks, users) => clicks.keyBy(_.user).connect(users.keyBy(_.id)).process(new Named)`. Each
  *   stream may have a watermark; the test moves the watermark of the query, the lower of the two
  * @param parallelism
  *   the number of subtasks
  * @param maxParallelism
  *   the number of key groups, unless the streams set it
  * @param sideOutputs
  *   the side outputs that [[getSideOutput]] returns
  * @param backend
  *   the backend, as in the setting `spark.keystate.backend`
  */
final class KeyedTwoInputStreamOperatorTestHarness[IN1, IN2, OUT](
    operator: (Dataset[IN1], Dataset[IN2]) => Dataset[OUT],
    parallelism: Int = 1,
    maxParallelism: Int = 128,
    sideOutputs: Seq[OutputTag[_]] = Nil,
    backend: String = "hashmap"
)(implicit in1: TypeInformation[IN1], in2: TypeInformation[IN2])
    extends OperatorTestHarness[OUT](maxParallelism, sideOutputs) {
  private val first = new TestedInput(in1)
  private val second = new TestedInput(in2)
  private[testing] override val tested = new TestedOperator(
    TestedInputs.Two,
    Seq(first, second),
    () => operator(first.stream, second.stream),
    parallelism,
    maxParallelism,
    sideOutputs,
    backend
  )

  /** Runs a micro-batch with one element of the first stream. Returns the results. */
  def processElement1(element: IN1): Seq[OUT] = process(Seq(element), Nil)

  /** Runs a micro-batch with one element of the first stream.
    *
    * @param timestamp
    *   the value of the element's event time column, in ms. Without such a column the call is
    *   `KEYSTATE_DECLARATION`
    */
  def processElement1(element: IN1, timestamp: Long): Seq[OUT] =
    processAt(timestamp, Seq(element), Nil)

  /** Runs a micro-batch with one element of the second stream. Returns the results. */
  def processElement2(element: IN2): Seq[OUT] = process(Nil, Seq(element))

  /** Runs a micro-batch with one element of the second stream.
    *
    * @param timestamp
    *   the value of the element's event time column, in ms. Without such a column the call is
    *   `KEYSTATE_DECLARATION`
    */
  def processElement2(element: IN2, timestamp: Long): Seq[OUT] =
    processAt(timestamp, Nil, Seq(element))

  /** Runs a micro-batch with elements of both streams that also moves the clocks. Clocks can't go
    * back (`KEYSTATE_DECLARATION`).
    */
  def processBatch(
      elements1: Seq[IN1],
      elements2: Seq[IN2],
      watermark: Option[Long] = None,
      processingTime: Option[Long] = None
  ): Seq[OUT] = processWithClocks(watermark, processingTime, elements1, elements2)
}
