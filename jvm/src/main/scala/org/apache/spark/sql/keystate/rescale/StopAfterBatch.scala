package org.apache.spark.sql.keystate.rescale

import scala.annotation.tailrec

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}
import org.apache.spark.sql.keystate.shim.RealTimeMode

/** Holds a query between two micro-batches, so that a stop interrupts no micro-batch and leaves
  * none to run again.
  *
  * It does not hold queries in real-time mode, where a micro-batch has its entry in the offset log
  * at its end, nor queries whose logs Keystate does not write: there it only reports the end of a
  * micro-batch, and the next one may have begun when the query is stopped.
  */
private[keystate] object StopAfterBatch {

  /** Waits until the micro-batch that runs has ended, and lets no other one begin until `letGo`.
    * False if that takes longer than so many ms. The query may be held already.
    */
  def hold(query: StreamExecution, millis: Long): Boolean = {
    val checkpoint = new Path(query.resolvedCheckpointRoot)
    val holds = !RealTimeMode.isTrigger(query.trigger) &&
      CheckpointFiles.managesLogs(query.sparkSession.sessionState.newHadoopConf())
    val before = lastBatch(query)
    if (holds) CheckpointOwner.hold(checkpoint)
    def isThere: Boolean = !query.isActive || !query.status.isTriggerActive ||
      (if (holds) CheckpointOwner.isWaiting(checkpoint) else lastBatch(query) != before)
    @tailrec def await(deadline: Long): Boolean =
      if (isThere) true
      else if (System.nanoTime >= deadline) false
      else {
        Thread.sleep(5)
        await(deadline)
      }
    val ended = await(System.nanoTime + millis * 1000000)
    if (ended) StorePreferredLocations.note(query)
    ended
  }

  def letGo(checkpoint: String): Unit = CheckpointOwner.letGo(new Path(checkpoint))

  /** Identifies a micro-batch. */
  private def lastBatch(query: StreamExecution): Option[String] =
    Option(query.lastProgress).map(progress => s"${progress.batchId} ${progress.timestamp}")
}
