package org.apache.spark.sql.keystate.checkpoint

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.json4s.JValue
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import keystate.errors.{KeystateErrors, MissingVersionException}
import keystate.files.StoreLocation
import org.apache.spark.sql.keystate.files.CheckpointFiles
import org.apache.spark.sql.keystate.operator.StaticInputs
import org.apache.spark.sql.keystate.spec.SystemColumnFamilies

/** Reads checkpoints without a Spark job, as JSON, and writes requests to forget keys. It needs
  * Spark's classes, but no session: [[org.apache.spark.sql.keystate.LocalBridge]] runs it in a JVM
  * of its own.
  */
private[keystate] class CheckpointReader(settings: => Configuration) {
  private lazy val conf = settings

  /** The content of a checkpoint. */
  def inspect(checkpoint: String): String =
    reading(checkpoint)(new CheckpointReport(_).inspect())

  /** Reads all of a checkpoint. Returns the problems. */
  def verify(checkpoint: String): String =
    reading(checkpoint)(new CheckpointReport(_).verify(working))

  /** How the state is spread and how it grew. */
  def statistics(checkpoint: String): String =
    reading(checkpoint)(new CheckpointStatistics(_, working)())

  /** The progress of `verify` or `statistics` in another thread, such as `3/20`. */
  def progress: String = working.toString

  private val working = new Progress

  /** How many keys of each state differ between two checkpoints. */
  def diff(before: String, after: String): String =
    reading(before)(left => open(after)(right => CheckpointDifference(left, right)))

  /** The kind and types of a state.
    *
    * @param operator
    *   its number; negative if only one operator has such a state
    * @param state
    *   its name; empty if there is only one
    * @param version
    *   the version of the state; negative for the last one
    */
  def describeState(checkpoint: String, operator: Long, state: String, version: Long): String =
    reading(checkpoint)(lookup(_, operator, state, version).describe)

  /** One key's value in a state after a committed micro-batch: see [[StateLookup]]. */
  def lookUp(
      checkpoint: String,
      operator: Long,
      state: String,
      version: Long,
      key: String,
      start: String,
      end: String,
      isRange: Boolean
  ): String =
    open(checkpoint)(lookup(_, operator, state, version).find(key, start, end, isRange))

  private def lookup(opened: QueryCheckpoint, operator: Long, state: String, version: Long) =
    new StateLookup(
      opened,
      numbered(operator),
      Option.when(state.nonEmpty)(state),
      numbered(version)
    )

  /** A keyed operator and its key. A negative number if there is only one. */
  def describeOperator(checkpoint: String, operator: Long): String =
    reading(checkpoint)(new KeyHistory(_, numbered(operator)).describe)

  /** One key's value after each micro-batch: see [[KeyHistory]]. */
  def history(checkpoint: String, operator: Long, key: String, first: Long, until: Long): String =
    reading(checkpoint)(new KeyHistory(_, numbered(operator)).versions(key, first, until))

  /** The operators that forget a key, with their key's columns. A negative number for all. */
  def describeForgetting(checkpoint: String, operator: Long): String =
    reading(checkpoint)(new KeyRequests(_, numbered(operator)).describe)

  /** Asks that a key be forgotten: see [[KeyRequests]]. */
  def forget(checkpoint: String, operator: Long, keys: String): String =
    reading(checkpoint)(new KeyRequests(_, numbered(operator)).write(parse(keys)))

  /** The places where data of a key is left: see [[KeyRequests]]. */
  def traces(checkpoint: String, operator: Long, keys: String): String =
    reading(checkpoint)(new KeyRequests(_, numbered(operator)).traces(parse(keys)))

  /** The recorded clock of a started micro-batch, its number of partitions, and whether it ran in
    * real-time mode and takes in initial state. Its watermark and that of the one before it are 0
    * if there is none yet.
    */
  def clock(checkpoint: String, operator: Long, batch: Long): String = reading(checkpoint) {
    opened =>
      if (!opened.hasOffsets(batch)) throw KeystateErrors.noBatch(batch, opened.location)
      val isCommitted = opened.committedBatches.contains(batch)
      ("began_at" -> opened.beganAt(batch)) ~
        ("watermark" -> opened.beganWith(batch).getOrElse(0L)) ~
        ("watermark_before" -> opened.beganWith(batch - 1).getOrElse(0L)) ~
        ("committed" -> isCommitted) ~
        ("real_time" -> (isCommitted && ranInRealTime(opened, operator, batch))) ~
        ("takes_initial" -> takesInitial(opened, operator, batch)) ~
        ("partitions" ->
          (if (isCommitted) Some(opened.batch(batch).partitions)
           else opened.recordedPartitions(batch)))
  }

  private def ranInRealTime(opened: QueryCheckpoint, operator: Long, batch: Long): Boolean =
    manifestAfter(opened, operator, batch).exists(SystemColumnFamilies.isMadeInRealTime)

  /** Also true of a micro-batch that would have taken it in if the query had any. */
  private def takesInitial(opened: QueryCheckpoint, operator: Long, batch: Long): Boolean =
    batch == 0 || (opened.committedBatches.contains(batch - 1) &&
      manifestAfter(opened, operator, batch - 1)
        .map(_.families)
        .exists(of => StaticInputs.areRecorded(of) && StaticInputs.lacks(StaticInputs.Initial, of)))

  /** The manifest of the first partition. None if the version no longer exists. */
  private def manifestAfter(opened: QueryCheckpoint, operator: Long, batch: Long) =
    try Some(opened.manifest(opened.batch(batch), operator, 0, StoreLocation.DefaultStore))
    catch { case _: MissingVersionException => None }

  private def numbered(number: Long): Option[Long] = Option.when(number >= 0)(number)

  private def reading(checkpoint: String)(read: QueryCheckpoint => JValue): String =
    open(checkpoint)(opened => compact(render(read(opened))))

  private def open[T](checkpoint: String)(read: QueryCheckpoint => T): T = {
    val location = CheckpointFiles.qualified(checkpoint, conf)
    Using.resource(new QueryCheckpoint(conf, location))(read)
  }
}
