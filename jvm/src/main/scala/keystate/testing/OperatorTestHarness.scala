package keystate.testing

import scala.collection.mutable

import keystate.keygroup.KeyGroups
import keystate.{OutputTag, TimeDomain}
import org.apache.spark.sql.keystate.jvm.testing.TestedOperator

/** The part that the harnesses share.
  *
  * Each call that processes something is one micro-batch: elements first, then the timers that are
  * due, including those that timers set. A micro-batch that fails changes nothing.
  */
abstract class OperatorTestHarness[OUT] private[testing] (
    maxParallelism: Int,
    sideOutputs: Seq[OutputTag[_]]
) extends AutoCloseable {
  KeyGroups.checkMaxParallelism(maxParallelism)

  private[testing] def tested: TestedOperator[OUT]

  private val outputs =
    Vector.fill(sideOutputs.size + 1)(mutable.ArrayBuffer.empty[Any])

  private def taken(results: Seq[(Int, Any)]): Seq[OUT] = {
    results.foreach { case (output, result) => outputs(output) += result }
    results.collect { case (0, result) => result.asInstanceOf[OUT] }
  }

  /** @param elements
    *   the elements of each input
    */
  private[testing] def process(elements: Seq[Any]*): Seq[OUT] = taken(tested.run(elements))

  private[testing] def processAt(timestamp: Long, elements: Seq[Any]*): Seq[OUT] =
    taken(tested.run(elements, Some(timestamp)))

  private[testing] def processWithClocks(
      watermark: Option[Long],
      processingTime: Option[Long],
      elements: Seq[Any]*
  ): Seq[OUT] = taken(
    tested.run(
      elements,
      watermark = watermark.getOrElse(getCurrentWatermark),
      clock = processingTime.getOrElse(getProcessingTime)
    )
  )

  /** Continues from another harness's snapshot, with the same function or a changed one and any
    * number of subtasks. Call it before any other method. A different number of key groups is
    * `KEYSTATE_MAX_PARALLELISM_CHANGED`, a different key of states or timers
    * `KEYSTATE_KEY_CHANGED`.
    */
  def initializeState(snapshot: OperatorSnapshot): Unit = tested.restore(snapshot.held)

  /** Opens the function in every subtask, by a micro-batch without elements. Otherwise the first
    * micro-batch opens it.
    */
  def open(): Unit =
    process(): Unit

  /** Runs a micro-batch without elements that moves the watermark. */
  def processWatermark(timestamp: Long): Seq[OUT] = processWithClocks(Some(timestamp), None)

  /** Runs a micro-batch without elements that moves the processing time. */
  def setProcessingTime(time: Long): Seq[OUT] = processWithClocks(None, Some(time))

  /** The watermark in ms; 0 at first. */
  def getCurrentWatermark: Long = tested.currentWatermark

  /** The processing time in ms; 0 at first. */
  def getProcessingTime: Long = tested.currentProcessingTime

  /** The results emitted so far, or since [[clearOutput]]. */
  def extractOutputValues(): Seq[OUT] = outputs.head.map(_.asInstanceOf[OUT]).toSeq

  /** The results emitted to a side output. */
  def getSideOutput[S](tag: OutputTag[S]): Seq[S] = {
    val index = sideOutputs.indexOf(tag)
    require(index >= 0, s"$tag is none of the harness's sideOutputs")
    outputs(index + 1).map(_.asInstanceOf[S]).toSeq
  }

  /** Drops the results so far, also those of side outputs. */
  def clearOutput(): Unit = outputs.foreach(_.clear())

  /** The number of a state's entries over all keys: one for each key of a value, and for each entry
    * of a map.
    */
  def numKeyedStateEntries(state: String): Long = tested.numEntries(state)

  /** The number of entries in all keyed states, including timers. */
  def numKeyedStateEntries: Long = tested.numEntries

  /** The number of event-time timers, over all keys. */
  def numEventTimeTimers: Long = tested.numTimers(TimeDomain.EVENT_TIME)

  /** The number of processing-time timers, over all keys. */
  def numProcessingTimeTimers: Long = tested.numTimers(TimeDomain.PROCESSING_TIME)

  /** The number of elements dropped because they were behind the previous micro-batch's watermark.
    */
  def numLateElements: Long = tested.numLateElements

  /** The state that a restarted operator would restore. */
  def snapshot(): OperatorSnapshot = new OperatorSnapshot(tested.held)

  /** Drops the functions, as when an executor is lost: the next micro-batch opens new ones. */
  def restart(): Unit = tested.restart()

  /** Closes the function in every subtask. */
  override def close(): Unit = tested.close()
}
