package keystate.testing

import org.apache.spark.sql.Dataset

import keystate.{OutputTag, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedInputs, TestedOperator}

/** Runs a function with state in the test's own process, by the rules of a query but without one:
  * no files, and clocks that stand still until the test moves them. It runs the code of a query's
  * tasks. With a Spark session in the test it uses that, else it starts one.
  *
  * @param operator
  *   applies the function to a stream, as in a query: `_.keyBy(_.user).process(new Sessions)`. What
  *   it returns is what `process`, `flatMap`, a window and so on return. A stream with a watermark is
  *   `_.withWatermark("time", "0 seconds")…`; the test moves it, whatever the delay. Another Dataset
  *   in it is of a batch: initial state, which the first micro-batch reads, or a table, which the
  *   first micro-batch that has it reads
  * @param parallelism
  *   the number of subtasks
  * @param maxParallelism
  *   the number of key groups, where the stream does not tell it
  * @param sideOutputs
  *   the side outputs that [[getSideOutput]] shows
  * @param backend
  *   as the setting `spark.keystate.backend`
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

  /** A micro-batch of one element. Returns the results. */
  def processElement(element: IN): Seq[OUT] = process(Seq(element))

  /** A micro-batch of one element.
    *
    * @param timestamp
    *   put into its event time column, in ms. Without one that is `KEYSTATE_DECLARATION`
    */
  def processElement(element: IN, timestamp: Long): Seq[OUT] = processAt(timestamp, Seq(element))

  /** A micro-batch of elements, in which the clocks move too. They do not go back
    * (`KEYSTATE_DECLARATION`).
    */
  def processBatch(
      elements: Seq[IN],
      watermark: Option[Long] = None,
      processingTime: Option[Long] = None
  ): Seq[OUT] = processWithClocks(watermark, processingTime, elements)
}
