package org.apache.spark.sql.keystate.checkpoint

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.json4s.JValue
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.sql.keystate.files.CheckpointFiles

/** What is read of checkpoints without a Spark job, as JSON. It needs Spark's classes, and no
  * session: [[org.apache.spark.sql.keystate.LocalBridge]] runs it in a JVM of its own.
  */
private[keystate] class CheckpointReader(conf: Configuration) {

  /** What is in a checkpoint. */
  def inspect(checkpoint: String): String =
    reading(checkpoint)(new CheckpointReport(_).inspect())

  /** Reads all of a checkpoint. Returns what is wrong. */
  def verify(checkpoint: String): String =
    reading(checkpoint)(new CheckpointReport(_).verify(working))

  /** How the state is spread and how it grew. */
  def statistics(checkpoint: String): String =
    reading(checkpoint)(new CheckpointStatistics(_, working)())

  /** How far `verify` or `statistics` is, which another thread called: as in `3/20`. */
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
    */
  def describeState(checkpoint: String, operator: Long, state: String): String =
    reading(checkpoint)(lookup(_, operator, state).describe)

  /** What one key has in a state after the last committed micro-batch: see [[StateLookup]]. */
  def lookUp(
      checkpoint: String,
      operator: Long,
      state: String,
      key: String,
      start: String,
      end: String,
      isRange: Boolean
  ): String = open(checkpoint)(lookup(_, operator, state).find(key, start, end, isRange))

  private def lookup(opened: QueryCheckpoint, operator: Long, state: String) =
    new StateLookup(
      opened,
      Option.when(operator >= 0)(operator),
      Option.when(state.nonEmpty)(state)
    )

  private def reading(checkpoint: String)(read: QueryCheckpoint => JValue): String =
    open(checkpoint)(opened => compact(render(read(opened))))

  private def open[T](checkpoint: String)(read: QueryCheckpoint => T): T = {
    val location = CheckpointFiles.qualified(checkpoint, conf)
    Using.resource(new QueryCheckpoint(conf, location))(read)
  }
}
