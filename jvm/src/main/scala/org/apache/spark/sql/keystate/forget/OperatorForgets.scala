package org.apache.spark.sql.keystate.forget

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streaming.StateOperatorProgress

import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.metrics.{OperatorReport, SubtaskReport}
import org.apache.spark.sql.keystate.store.StoredSubtask

/** The keys that an operator forgets in a micro-batch. A subtask tells the micro-batches of claims
  * whose keys may have data left in its files.
  *
  * @param keyed
  *   whether the operator has keys
  */
private[keystate] final class OperatorForgets(
    @transient info: StatefulOperatorStateInfo,
    keyed: Boolean,
    @transient conf: => Configuration
) extends OperatorReport[StoredSubtask, Set[Long]] {
  private val batch = info.storeVersion

  /** Claims of this micro-batch and of earlier ones, whose keys may still be in files. In tasks they
    * have only the keys of this operator.
    */
  private var claims = Seq.empty[ForgetClaim]
  private var isPlanned = false

  private def forgetting = Forgetting.of(info, conf)

  override protected def isNeeded(): Boolean = {
    val planned = if (keyed) forgetting.plan(batch) else Nil
    isPlanned = planned.nonEmpty
    claims = planned
      .map(claim => claim.copy(keys = claim.keys.filter(_.operator == info.operatorId)))
      .filter(_.keys.nonEmpty)
    claims.nonEmpty
  }

  /** Removes the keys' entries. */
  override protected def begin(subtask: StoredSubtask, tell: Set[Long] => Unit): SubtaskReport = {
    val store = subtask.store
    def groupOf(key: ForgottenKey) = KeyGroups.groupOf(key.hash, store.maxParallelism)
    val own = claims.map { claim =>
      claim.copy(keys = claim.keys.filter(key => store.groups.contains(groupOf(key))))
    }
    val entries = store.lease.use {
      own.filter(_.batch == batch).flatMap(_.keys).map { key =>
        new StoredKey(groupOf(key), key.bytes).removeFrom(store.lease.backend, store.families)
      }
    }
    // A file from before a rescale can have keys of other partitions.
    val left = own.filter { claim =>
      (claim.keys.nonEmpty || !store.ownsFiles) && !store.isRidOf(claim.version)
    }
    left.foreach(claim => store.getRidOf(claim.version))
    new SubtaskReport {
      override def removed: Long = entries.sum
      override def ended(): Unit = tell(left.map(_.batch).toSet)
    }
  }

  override def wantsBatch: Boolean = forgetting.isWaiting

  override def metrics(progress: StateOperatorProgress): Map[String, Long] = {
    if (isPlanned) forgetting.tell(batch, info.operatorId, told.values.flatten.toSet)
    Map.empty
  }
}
