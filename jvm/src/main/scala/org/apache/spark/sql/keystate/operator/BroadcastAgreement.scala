package org.apache.spark.sql.keystate.operator

import keystate.errors.KeystateErrors

/** A check for debugging. After every micro-batch with broadcast elements, all subtasks must have
  * the same broadcast states. `check` throws if they do not.
  */
private[keystate] object BroadcastAgreement {

  /** The digest of one broadcast state in one subtask. */
  final case class Digest(state: String, subtask: Int, digest: Long)

  def check(operator: Option[String], batch: Long, digests: Seq[Digest]): Unit =
    digests.groupBy(_.state).toSeq.sortBy(_._1).foreach { case (state, ofState) =>
      // If a task ran twice, its last digest counts.
      val bySubtask = ofState.map(digest => digest.subtask -> digest.digest).toMap
      val agreeing = bySubtask.groupMap(_._2)(_._1).values.map(_.toSeq.sorted).toSeq
      if (agreeing.size > 1)
        throw KeystateErrors.broadcastDisagrees(operator, state, batch, agreeing.sortBy(_.head))
    }
}
