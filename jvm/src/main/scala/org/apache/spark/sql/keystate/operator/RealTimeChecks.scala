package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.internal.SQLConf

import keystate.errors.{BadSettingException, KeystateErrors}
import org.apache.spark.sql.keystate.shim.RealTimeMode

/** Checks for features that real-time mode does not support. */
private[operator] object RealTimeChecks {

  /** Throws if an operator needs all rows of a micro-batch. It is called before a broadcast stream
    * is collected, because collecting would take as long as a batch.
    */
  def ofInputs(
      function: OperatorFunction,
      second: Option[SecondInput],
      order: Seq[SortOrder],
      conf: SQLConf
  ): Unit = {
    def refuse(what: String) = throw KeystateErrors.declaration(
      s"$what can't be used in real-time mode: it needs all rows of a micro-batch. Use another " +
        "trigger."
    )
    function.notInRealTime.foreach(refuse)
    second.foreach { input =>
      input.role match {
        case InputRole.Initial => refuse("Initial state")
        case InputRole.Connected | InputRole.Merged => refuse("A function of two keyed inputs")
        case InputRole.Ahead => refuse("An as-of join")
        case InputRole.Broadcast => if (!input.once) refuse("A stream that is broadcast")
      }
    }
    if (order.nonEmpty) refuse("order_by")
    // Spark would throw too, but its error says nothing of the check that is made instead.
    RealTimeMode.Allowlist.map(key => key -> conf.getConfString(key)).foreach { case (key, value) =>
      if (value.toBoolean)
        throw new BadSettingException(
          key,
          value,
          "unset or false with a keyed function in real-time mode, because Spark's list lacks " +
            "Keystate's operators; Keystate checks by that list what comes before its functions"
        )
    }
  }

  /** Makes Spark's check for the plan below an operator. Spark does not check the whole query, see
    * `RealTimeSession`; it does not know Keystate's operators.
    */
  def ofOperatorsBelow(child: SparkPlan): Unit =
    RealTimeMode.checkOperators(child.transform {
      case own: FunctionExec => own.left
      case own: EachRowExec => own.child
    })
}

/** An operator of Keystate's that has each row's result at once. */
private[keystate] trait EachRowExec extends UnaryExecNode
