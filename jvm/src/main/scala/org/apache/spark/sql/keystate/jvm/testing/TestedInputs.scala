package org.apache.spark.sql.keystate.jvm.testing

import org.apache.spark.sql.keystate.operator.InputRole
import org.apache.spark.sql.keystate.plan.KeyedProcess

/** The inputs that the operator of a harness has.
  *
  * @param told
  *   their name in messages
  */
sealed abstract class TestedInputs(val told: String) {
  private[testing] def are(process: KeyedProcess): Boolean

  /** Whether the operator has a second stream, with one of these roles. */
  protected def second(process: KeyedProcess, roles: InputRole*): Boolean =
    process.left.isStreaming && process.right.isStreaming &&
      process.second.exists(input => roles.contains(input.role))
}

object TestedInputs {

  /** One stream. A test's batch Datasets may be a second input. */
  case object One extends TestedInputs("one input") {
    private[testing] override def are(process: KeyedProcess): Boolean =
      process.second.isEmpty || process.left.isStreaming != process.right.isStreaming
  }

  /** Two streams with keys. */
  case object Two extends TestedInputs("two keyed inputs") {
    private[testing] override def are(process: KeyedProcess): Boolean =
      second(process, InputRole.Connected, InputRole.Merged)
  }

  /** A stream, and a broadcast stream. */
  case object Broadcast extends TestedInputs("an input and one that is broadcast") {
    private[testing] override def are(process: KeyedProcess): Boolean =
      second(process, InputRole.Broadcast)
  }
}
