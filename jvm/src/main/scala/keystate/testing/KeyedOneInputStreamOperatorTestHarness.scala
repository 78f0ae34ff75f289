package keystate.testing

import org.apache.spark.sql.Dataset

import keystate.{OutputTag, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedInputs, TestedOperator}

/** Runs a function with state in the test's own process, by the rules of a query but without one:
  * no files, and clocks that stand still until the test moves them. It runs the same code as a
  * query's tasks. It uses the test's Spark session if there is one, else it starts one.
  *
  * @param operator
  *   applies the function to a stream, as in a query: `_.keyBy(_.user).process(new Sessions)`. It
  *   returns the Dataset that `process`, `flatMap`, a window and so on return. For a stream with a
  *   watermark write `_.withWatermark("time", "0 seconds")…`; the test moves the watermark,
  *   whatever the delay. Any other Dataset in it is a batch Dataset: initial state, which the first
  *   micro-batch reads, or a table, which the first micro-batch that has the table reads
  * @param parallelism
  *   the number of subtasks
  * @param maxParallelism
  *   the number of key groups, unless the stream sets it
  * @param sideOutputs
  *   the side outputs that [[getSideOutput]] returns
  * @param backend
  *   the backend, as in the setting `spark.keystate.backend`
  */
final class KeyedOneInputStreamOperatorTestHarness[IN, OUT](
    operator: Dataset[IN] => Dataset[OUT],
    parallelism: Int = 1,
    maxParallelism: Int = 128,
    sideOutputs: Seq[OutputTag[_]] = Nil,
    backend: String = "hashmap"
)(implicit in: TypeInformation[IN])
    extends OperatorTestHarness[OUT](maxParallelism, sideOutputs) {
  private val input = new TestedInput(in)
  private[testing] override val tested = new TestedOperator(
    TestedInputs.One,
    Seq(input),
    () => operator(input.stream),
    parallelism,
    maxParallelism,
    sideOutputs,
    backend
  )

  /** Runs a micro-batch with one element. Returns the results. */
  def processElement(element: IN): Seq[OUT] = process(Seq(element))

  /** Runs a micro-batch with one element.
    *
    * @param timestamp
    *   the value of the element's event time column, in ms. Without such a column the call is
    *   `KEYSTATE_DECLARATION`
    */
  def processElement(element: IN, timestamp: Long): Seq[OUT] = processAt(timestamp, Seq(element))

  /** Runs a micro-batch that also moves the clocks. Clocks can't go back (`KEYSTATE_DECLARATION`).
    */
  def processBatch(
      elements: Seq[IN],
      watermark: Option[Long] = None,
      processingTime: Option[Long] = None
  ): Seq[OUT] = processWithClocks(watermark, processingTime, elements)
}
