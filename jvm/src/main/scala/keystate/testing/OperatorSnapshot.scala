package keystate.testing

import org.apache.spark.sql.keystate.jvm.testing.HeldState

/** A harness's content after its last micro-batch: states, timers, operator state and clocks. Can
  * be serialised.
  */
final class OperatorSnapshot private[testing] (private[testing] val held: HeldState)
    extends Serializable
