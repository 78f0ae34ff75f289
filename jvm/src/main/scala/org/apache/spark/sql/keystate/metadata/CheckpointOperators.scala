package org.apache.spark.sql.keystate.metadata

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.keystate.files.{CheckpointFiles, SparkCheckpointStorage}

/** The stateful operators of a query, as its checkpoint has them: Keystate's operators, which have
  * a record, and Spark's own.
  *
  * @param root
  *   the checkpoint
  */
private[keystate] final class CheckpointOperators(conf: Configuration, root: Path) {
  private val files = CheckpointFiles.ofRun(root, conf)
  private val state = new Path(root, "state")

  /** The ids of all operators, ascending. The folder is read again at each call. */
  def all: Seq[Long] =
    if (files.exists(state)) files.list(state).toSeq.flatMap(_.getPath.getName.toLongOption).sorted
    else Nil

  def folder(operator: Long): Path = new Path(state, s"$operator")

  def storage(operator: Long): SparkCheckpointStorage =
    new SparkCheckpointStorage(folder(operator), conf)

  /** An operator's record. None if the operator is one of Spark's own. */
  def record(operator: Long): Option[OperatorRecord] =
    OperatorRecord.read(folder(operator), conf)

  /** The stores of Spark's own operators, as they are after a committed micro-batch. */
  def sparkStores(batch: Option[Long]): Map[Long, Seq[SparkStoreMetadata]] = {
    val sparks = all.filter(record(_).isEmpty).toSet
    batch.filter(_ => sparks.nonEmpty).fold(Map.empty[Long, Seq[SparkStoreMetadata]]) { batch =>
      SparkStoreMetadata.all(conf, root, batch).filter { case (operator, _) =>
        sparks(operator)
      }
    }
  }
}

private[keystate] object CheckpointOperators {

  /** Whether one of Spark's operators has no keys, such as a limit. All of its state is in the
    * first partition.
    */
  def isUnpartitioned(stores: Seq[SparkStoreMetadata]): Boolean = stores.forall(_.isUnpartitioned)
}
