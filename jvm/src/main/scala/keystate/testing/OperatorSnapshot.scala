package keystate.testing

import org.apache.spark.sql.keystate.jvm.testing.HeldState

/** What a harness had when its last micro-batch had ended: states, timers, operator state and
  * clocks. Can be serialised.
  */
final class OperatorSnapshot private[testing] (private[testing] val held: HeldState)
    extends Serializable
