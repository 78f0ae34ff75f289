package org.apache.spark.sql.keystate.rescale

import org.apache.spark.sql.execution.streaming.checkpointing.CommitMetadataBase

import keystate.checkpoint.Rescaling
import keystate.errors.CheckpointException
import keystate.files.CheckpointStorage

/** In how many partitions the state after a committed batch is. That follows from what was committed:
  * the ids in the commit log or, with checkpoint format v1, the version files. The number in the offset
  * log is only what the batch was begun with: a rescale by another driver may have changed it since.
  *
  * @param operators
  *   in order
  * @param isKeyed
  *   whether an operator is one of Keystate's; the others are Spark's own
  * @param unpartitioned
  *   of Spark's operators without keys, whose state is in one partition whatever the layout
  * @param stores
  *   an operator's files and the names of its stores
  */
private[keystate] final class CommittedPartitions(
    operators: Seq[Long],
    isKeyed: Long => Boolean,
    unpartitioned: Long => Boolean,
    stores: Long => (CheckpointStorage, Seq[String])
) {

  /** @param recorded
    *   the number of partitions in the offset log
    */
  def of(batch: Long, commit: CommitMetadataBase, recorded: Int): Int =
    commit.stateUniqueIds match {
      case Some(ids) =>
        // Spark's operators without keys have one id in any layout.
        if (recorded > 1 && ids.values.exists(_.length == recorded)) recorded
        else
          ids
            .collectFirst { case (operator, of) if !unpartitioned(operator) => of.length }
            .getOrElse(recorded)
      case None => ofFiles(batch + 1, recorded)
    }

  /** That of the files of checkpoint format v1: all operators have the version in it. Where they have
    * it in several layouts, one was made from the other or both from the same version and input; then
    * the log's counts.
    */
  private def ofFiles(version: Long, recorded: Int): Int = {
    val keyed = operators.filter(isKeyed)
    // As a rule one file tells it; of Spark's operators one without keys has any number in its file.
    val isRecorded =
      if (keyed.nonEmpty) keyed.exists(countsOf(_, version) == Seq(recorded))
      else
        recorded > 1 && operators.exists { operator =>
          countsOf(operator, version) == Seq(recorded) && isComplete(operator, version, recorded)
        }
    if (isRecorded) recorded
    else {
      val partitioned = if (keyed.nonEmpty) keyed else operators.filterNot(unpartitioned)
      val found = partitioned.map(complete(_, version)).reduceOption(_ intersect _).getOrElse(Nil)
      if (found.contains(recorded)) recorded else found.maxOption.getOrElse(recorded)
    }
  }

  /** The layouts in which checkpoint format v1 has a version of all of an operator's stores. */
  def complete(operator: Long, version: Long): Seq[Int] =
    countsOf(operator, version).filter(isComplete(operator, version, _))

  private def countsOf(operator: Long, version: Long): Seq[Int] = {
    val (storage, names) = stores(operator)
    readable(Seq.empty[Int]) {
      names.headOption.toSeq.flatMap(Rescaling.partitionCounts(storage, operator, _, version))
    }
  }

  private def isComplete(operator: Long, version: Long, parallelism: Int): Boolean = {
    val (storage, names) = stores(operator)
    readable(false)(
      names.forall(Rescaling.isComplete(storage, operator, _, version, parallelism))
    )
  }

  /** What is damaged tells nothing here, and is named by whoever loads it. */
  private def readable[T](otherwise: T)(read: => T): T =
    try read
    catch { case _: CheckpointException => otherwise }
}
