package keystate.testing

import scala.collection.mutable

import keystate.keygroup.KeyGroups
import keystate.{OutputTag, TimeDomain}
import org.apache.spark.sql.keystate.jvm.testing.TestedOperator

/** What the harnesses have in common.
  *
  * Each call that processes something is one micro-batch: elements first, then the timers that are
  * due, those too that it sets. A micro-batch that fails changes nothing.
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
    *   of each input
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

  /** Goes on from what another harness had, with the same function or a changed one and any number of
    * subtasks. To be called before all else. Another number of key groups is
    * `KEYSTATE_MAX_PARALLELISM_CHANGED`, another key of states or timers `KEYSTATE_KEY_CHANGED`.
    */
  def initializeState(snapshot: OperatorSnapshot): Unit = tested.restore(snapshot.held)

  /** Opens the function in every subtask, by a micro-batch without elements. Without it the first
    * micro-batch does.
    */
  def open(): Unit =
    process(): Unit

  /** A micro-batch without elements that moves the watermark. */
  def processWatermark(timestamp: Long): Seq[OUT] = processWithClocks(Some(timestamp), None)

  /** A micro-batch without elements that moves the processing time. */
  def setProcessingTime(time: Long): Seq[OUT] = processWithClocks(None, Some(time))

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

  /** Entries that all states of keys have, and timers. */
  def numKeyedStateEntries: Long = tested.numEntries

  /** Timers by event time, of all keys. */
  def numEventTimeTimers: Long = tested.numTimers(TimeDomain.EVENT_TIME)

  /** Timers by processing time, of all keys. */
  def numProcessingTimeTimers: Long = tested.numTimers(TimeDomain.PROCESSING_TIME)

  /** Elements that were behind the watermark of the micro-batch before, and were dropped. */
  def numLateElements: Long = tested.numLateElements

  /** What a restarted operator would find. */
  def snapshot(): OperatorSnapshot = new OperatorSnapshot(tested.held)

  /** Lets the functions go, as when an executor is lost: the next micro-batch opens others. */
  def restart(): Unit = tested.restart()

  /** Closes the function in every subtask. */
  override def close(): Unit = tested.close()
}
