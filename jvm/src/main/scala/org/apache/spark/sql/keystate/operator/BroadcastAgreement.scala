package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.streaming.StateOperatorProgress

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.metrics.{OperatorReport, SubtaskReport}

/** A check for debugging. After every micro-batch with broadcast elements, all subtasks must have
  * the same broadcast states. They tell the digest of each, by its name.
  *
  * @param operator
  *   the operator's name
  */
private[operator] final class BroadcastAgreement(operator: Option[String], batch: Long)
    extends OperatorReport[StreamSubtask, Map[String, Long]] {

  override protected def begin(
      subtask: StreamSubtask,
      tell: Map[String, Long] => Unit
  ): SubtaskReport = () =>
    if (subtask.task.broadcastInput.exists(_.rows.nonEmpty))
      tell(subtask.task.broadcastStates.get.states.map(it => it.spec.name -> it.digest).toMap)

  /** Throws if they are not the same. */
  override def metrics(progress: StateOperatorProgress): Map[String, Long] = {
    val digests =
      for ((subtask, states) <- told.toSeq; (state, digest) <- states)
        yield (state, digest, subtask)
    digests.groupBy(_._1).toSeq.sortBy(_._1).foreach { case (state, ofState) =>
      val agreeing = ofState.groupMap(_._2)(_._3).values.map(_.sorted).toSeq
      if (agreeing.size > 1)
        throw KeystateErrors.broadcastDisagrees(operator, state, batch, agreeing.sortBy(_.head))
    }
    Map.empty
  }
}
