package org.apache.spark.sql.keystate.rescale

import keystate.checkpoint.Rescaling
import keystate.errors.CheckpointException
import keystate.files.CheckpointStorage
import org.apache.spark.sql.keystate.shim.LogEntries

/** Finds the number of partitions of the state after a committed micro-batch, from committed files:
  * the ids in the commit log or, with checkpoint format v1, the version files. The number in the
  * offset log is only that with which the micro-batch was started: a rescale by another driver may
  * have changed it since.
  *
  * @param operators
  *   all operators, in order
  * @param isKeyed
  *   whether an operator is one of Keystate's; the others are Spark's own
  * @param unpartitioned
  *   whether it is one of Spark's operators without keys, whose state is always in one partition
  * @param stores
  *   an operator's files and the names of its stores
  */
private[keystate] final class CommittedPartitions(
    operators: Seq[Long],
    isKeyed: Long => Boolean,
    unpartitioned: Long => Boolean,
    stores: Long => (CheckpointStorage, Seq[String])
) {

  /** The number of partitions after a micro-batch.
    *
    * @param inLog
    *   the number of partitions in the offset log, if the log has it
    */
  def of(batch: Long, commit: LogEntries.Commit, inLog: Option[Int]): Int = {
    val recorded = inLog.getOrElse(1)
    commit.stateUniqueIds match {
      case Some(ids) =>
        // Spark's operators without keys have one id, whatever the number of partitions.
        if (recorded > 1 && ids.values.exists(_.length == recorded)) recorded
        else
          ids
            .collectFirst { case (operator, of) if !unpartitioned(operator) => of.length }
            .getOrElse(recorded)
      case None => ofFiles(batch + 1, recorded)
    }
  }

  /** The number of partitions in the files of checkpoint format v1: one in which all operators have
    * the version. If there are several, one was made from another, or both from the same version
    * and input. Then the number in the offset log counts, if it is one of them.
    */
  private def ofFiles(version: Long, recorded: Int): Int = {
    val keyed = operators.filter(isKeyed)
    // Usually one file shows the number. But a Spark operator without keys has any number in its
    // file.
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

  /** The numbers of partitions in which all of an operator's stores have all of a version. For
    * checkpoint format v1.
    */
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
    readable(false)(names.forall(Rescaling.isComplete(storage, operator, _, version, parallelism)))
  }

  /** `otherwise` if a file is damaged. The error comes when the file is loaded. */
  private def readable[T](otherwise: T)(read: => T): T =
    try read
    catch { case _: CheckpointException => otherwise }
}
