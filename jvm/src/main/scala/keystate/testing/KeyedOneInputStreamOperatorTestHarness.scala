package keystate.testing

import scala.collection.mutable

import org.apache.spark.sql.Dataset

import keystate.keygroup.KeyGroups
import keystate.{OutputTag, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedOperator}

/** Runs a function with state in the test's own process, by the rules of a query but without one:
  * no files, and clocks that stand still until the test moves them. It runs the code of a query's
  * tasks. With a Spark session in the test it uses that, else it starts one.
  *
  * Each call that processes something is one micro-batch: elements first, then the timers that are
  * due. A timer that was set in a micro-batch fires in a later one. A micro-batch that fails changes
  * nothing.
  *
  * @param operator
  *   applies the function to a stream, as in a query: `_.keyBy(_.user).process(new Sessions)`. What
  *   it returns is what `process`, `flatMap`, a window and so on return. A stream with a watermark is
  *   `_.withWatermark("time", "0 seconds")…`; the test moves it, whatever the delay
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
    extends AutoCloseable {
  KeyGroups.checkMaxParallelism(maxParallelism)
  private val tested = new TestedOperator(
    new TestedInput(in),
    operator,
    parallelism,
    maxParallelism,
    sideOutputs,
    backend
  )
  private val outputs =
    Vector.fill(sideOutputs.size + 1)(mutable.ArrayBuffer.empty[Any])

  private def taken(results: Seq[(Int, Any)]): Seq[OUT] = {
    results.foreach { case (output, result) => outputs(output) += result }
    results.collect { case (0, result) => result.asInstanceOf[OUT] }
  }

  /** Goes on from what another harness had, with the same function or a changed one and any number of
    * subtasks. To be called before all else. Another number of key groups is
    * `KEYSTATE_MAX_PARALLELISM_CHANGED`.
    */
  def initializeState(snapshot: OperatorSnapshot): Unit = tested.restore(snapshot.held)

  /** Opens the function in every subtask, by a micro-batch without elements. Without it the first
    * micro-batch does.
    */
  def open(): Unit = {
    taken(tested.run(Nil))
    ()
  }

  /** A micro-batch of one element. Returns the results. */
  def processElement(element: IN): Seq[OUT] = processBatch(Seq(element))

  /** A micro-batch of one element.
    *
    * @param timestamp
    *   put into its event time column, in ms. Without one that is `KEYSTATE_DECLARATION`
    */
  def processElement(element: IN, timestamp: Long): Seq[OUT] =
    taken(tested.run(Seq(element), Some(timestamp)))

  /** A micro-batch of elements, in which the clocks move too. They do not go back
    * (`KEYSTATE_DECLARATION`).
    */
  def processBatch(
      elements: Seq[IN],
      watermark: Option[Long] = None,
      processingTime: Option[Long] = None
  ): Seq[OUT] = taken(
    tested.run(
      elements,
      watermark = watermark.getOrElse(getCurrentWatermark),
      clock = processingTime.getOrElse(getProcessingTime)
    )
  )

  /** A micro-batch without elements that moves the watermark. */
  def processWatermark(timestamp: Long): Seq[OUT] = processBatch(Nil, watermark = Some(timestamp))

  /** A micro-batch without elements that moves the processing time. */
  def setProcessingTime(time: Long): Seq[OUT] = processBatch(Nil, processingTime = Some(time))

  /** In ms; 0 at first. */
  def getCurrentWatermark: Long = tested.currentWatermark

  /** In ms; 0 at first. */
  def getProcessingTime: Long = tested.currentProcessingTime

  /** What was emitted so far, or since [[clearOutput]]. */
  def extractOutputValues(): Seq[OUT] = outputs.head.map(_.asInstanceOf[OUT]).toSeq

  /** What was emitted to a side output. */
  def getSideOutput[S](tag: OutputTag[S]): Seq[S] = {
    val index = sideOutputs.indexOf(tag)
    require(index >= 0, s"$tag is none of the harness's sideOutputs")
    outputs(index + 1).map(_.asInstanceOf[S]).toSeq
  }

  /** Forgets what was emitted, also to side outputs. */
  def clearOutput(): Unit = outputs.foreach(_.clear())

  /** Entries that a state has, of all keys: one for each key of a value, for each entry of a map. */
  def numKeyedStateEntries(state: String): Long = tested.numEntries(state)

  /** Entries that all states have, and timers. */
  def numKeyedStateEntries: Long = tested.numEntries

  /** Elements that were behind the watermark of the micro-batch before, and were dropped. */
  def numLateElements: Long = tested.numLateElements

  /** What a restarted operator would find. */
  def snapshot(): OperatorSnapshot = new OperatorSnapshot(tested.held)

  /** Lets the functions go, as when an executor is lost: the next micro-batch opens others. */
  def restart(): Unit = tested.restart()

  /** Closes the function in every subtask. */
  override def close(): Unit = tested.close()
}
