package org.apache.spark.sql.keystate

import org.apache.hadoop.fs.Path
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.SessionCheckpoints.numbered
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}
import org.apache.spark.sql.keystate.rescale.{
  QueryRescaling, RescaleRequests, StopAfterBatch, StopAtShutdown
}
import org.apache.spark.sql.keystate.shim.RealTimeMode

/** Calls about queries that run, and about their numbers of partitions. */
private[keystate] trait RunningQueryCalls {
  protected def checkpoints: SessionCheckpoints

  /** Throws the error of a running query's start. The query itself fails with it only when its next
    * micro-batch begins.
    */
  def checkStart(query: String): Unit = checkpoints.activeQuery(query).foreach { started =>
    CheckpointOwner.check(new Path(started.resolvedCheckpointRoot))
  }

  /** The checkpoint of a running query; empty if it does not run. */
  def checkpointOf(query: String): String =
    checkpoints.activeQuery(query).fold("")(_.resolvedCheckpointRoot)

  /** Whether two names of checkpoints mean one place. */
  def isSamePlace(one: String, other: String): Boolean =
    CheckpointFiles.isSamePlace(checkpoints.place(one), checkpoints.place(other))

  /** Waits until the micro-batch of a query has ended, or for so many ms, and lets no other one
    * begin until `letGo`. Returns whether none runs now.
    */
  def holdAfterBatch(query: String, millis: Long): Boolean =
    checkpoints.activeQuery(query).forall(StopAfterBatch.hold(_, millis))

  def letGo(checkpoint: String): Unit = StopAfterBatch.letGo(checkpoint)

  /** Makes a query end at the end of its micro-batch when this JVM is asked to end, before the JVM
    * ends.
    */
  def stopAtShutdown(query: String, graceMillis: Long): Unit =
    new StopAtShutdown(() => checkpoints.activeQuery(query), graceMillis).register()

  /** Whether a running query is in real-time mode. */
  def isRealTime(query: String): Boolean =
    checkpoints.activeQuery(query).exists(started => RealTimeMode.isTrigger(started.trigger))

  /** Lets a query of this driver begin no micro-batch after this one; a negative number removes the
    * limit. Returns false if Keystate does not write Spark's logs, because the limit then has no
    * effect.
    */
  def limitBatches(checkpoint: String, last: Long): Boolean = {
    CheckpointOwner.limit(checkpoints.place(checkpoint), numbered(last))
    CheckpointFiles.managesLogs(checkpoints.conf)
  }

  /** Throws if a query is running on a checkpoint, as far as that can be noticed. */
  def checkStopped(checkpoint: String): Unit =
    checkpoints.stopped(checkpoint): Unit

  /** Changes a stopped query's number of partitions. Returns the number before. */
  def rescale(checkpoint: String, partitions: Int): Int = {
    val root = checkpoints.stopped(checkpoint)
    val conf = checkpoints.conf
    val files = CheckpointFiles.create(root, conf)
    CheckpointOwner.checkFinished(root, files)
    if (!files.exists(new Path(root, "offsets"))) throw KeystateErrors.noCheckpoint(checkpoint)
    val rescaling = new QueryRescaling(checkpoints.session, root.toString)
    rescaling.checkProvider()
    val run = s"rescale to $partitions partitions"
    CheckpointOwner.take(root, conf, run)
    try rescaling.run(Some(partitions))
    finally CheckpointOwner.release(root, run)
  }

  // Starts or ends accepting requests of other processes for another number of partitions of an
  // elastic query: see RescaleRequests.

  def listenForRescales(checkpoint: String, isOn: Boolean): Unit = requests(checkpoint).listen(isOn)

  /** The requested numbers of partitions by the requests' ids, as JSON. */
  def waitingRescales(checkpoint: String): String =
    compact(render(map2jvalue(requests(checkpoint).waiting.toMap)))

  def answerRescale(checkpoint: String, id: String, answer: String): Unit =
    requests(checkpoint).answer(id, answer)

  /** Whether the requester still waits. */
  def isRescaleWanted(checkpoint: String, id: String): Boolean = requests(checkpoint).isWanted(id)

  /** The request's id; empty if nobody listens. */
  def askRescale(checkpoint: String, partitions: Int, goodForMillis: Long): String =
    requests(checkpoint).ask(partitions, goodForMillis).getOrElse("")

  /** The answer; empty if there is none yet. */
  def rescaleAnswer(checkpoint: String, id: String): String =
    requests(checkpoint).takeAnswer(id).getOrElse("")

  def withdrawRescale(checkpoint: String, id: String): Unit = requests(checkpoint).withdraw(id)

  private def requests(checkpoint: String) =
    new RescaleRequests(checkpoints.place(checkpoint), checkpoints.conf)
}
