package org.apache.spark.sql.keystate.forget

import org.apache.spark.util.CollectionAccumulator

import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.store.KeyGroupStateStore

/** The keys that the tasks of an operator forget in a micro-batch. It is sent with them.
  *
  * @param claims
  *   claims of this micro-batch and of earlier ones, whose keys may still be in files; only with
  *   the
  *   keys of this operator
  * @param left
  *   takes the micro-batches of claims whose keys may have data left in a partition's files
  */
private[keystate] final class TaskForgets(
    batch: Long,
    claims: Seq[ForgetClaim],
    left: CollectionAccumulator[Long]
) extends Serializable {

  /** Removes the keys' entries, before the task reads any. Returns how many there were. */
  def run(store: KeyGroupStateStore): Long = {
    def groupOf(key: ForgottenKey) = KeyGroups.groupOf(key.hash, store.maxParallelism)
    var removed = 0L
    claims.foreach { claim =>
      val own = claim.keys.filter(key => store.groups.contains(groupOf(key)))
      if (claim.batch == batch)
        store.lease.use {
          own.foreach { key =>
            removed += new StoredKey(groupOf(key), key.bytes)
              .removeFrom(store.lease.backend, store.families)
          }
        }
      // A file from before a rescale can have keys of other partitions.
      if ((own.nonEmpty || !store.ownsFiles) && !store.isRidOf(claim.version)) {
        store.getRidOf(claim.version)
        left.add(claim.batch)
      }
    }
    removed
  }
}
