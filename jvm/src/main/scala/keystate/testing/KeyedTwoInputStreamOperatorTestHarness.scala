package keystate.testing

import org.apache.spark.sql.Dataset

import keystate.{OutputTag, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedInputs, TestedOperator}

/** Runs a function of two keyed streams as [[KeyedOneInputStreamOperatorTestHarness]] runs one of a
  * single stream.
  *
  * @param operator
  *   applies the function to both streams, as in a query:
  *   `(clicks, users) => clicks.keyBy(_.user).connect(users.keyBy(_.id)).process(new Named)`. Each
  *   stream may have a watermark; the test moves that of the query, which is the lesser one
  * @param parallelism
  *   the number of subtasks
  * @param maxParallelism
  *   the number of key groups, where the streams do not tell it
  * @param sideOutputs
  *   the side outputs that [[getSideOutput]] shows
  * @param backend
  *   as the setting `spark.keystate.backend`
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

  /** A micro-batch of one element of the first stream. Returns the results. */
  def processElement1(element: IN1): Seq[OUT] = process(Seq(element), Nil)

  /** A micro-batch of one element of the first stream.
    *
    * @param timestamp
    *   put into its event time column, in ms. Without one that is `KEYSTATE_DECLARATION`
    */
  def processElement1(element: IN1, timestamp: Long): Seq[OUT] =
    processAt(timestamp, Seq(element), Nil)

  /** A micro-batch of one element of the second stream. Returns the results. */
  def processElement2(element: IN2): Seq[OUT] = process(Nil, Seq(element))

  /** A micro-batch of one element of the second stream.
    *
    * @param timestamp
    *   put into its event time column, in ms. Without one that is `KEYSTATE_DECLARATION`
    */
  def processElement2(element: IN2, timestamp: Long): Seq[OUT] =
    processAt(timestamp, Nil, Seq(element))

  /** A micro-batch of elements of both streams, in which the clocks move too. They do not go back
    * (`KEYSTATE_DECLARATION`).
    */
  def processBatch(
      elements1: Seq[IN1],
      elements2: Seq[IN2],
      watermark: Option[Long] = None,
      processingTime: Option[Long] = None
  ): Seq[OUT] = processWithClocks(watermark, processingTime, elements1, elements2)
}
