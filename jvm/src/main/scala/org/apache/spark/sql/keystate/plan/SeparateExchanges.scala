package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/** Keeps Spark from reading one shuffle for several operators of a stream, if the watermark comes
  * through it. Spark computes the watermarks of the next micro-batch from this one's plan, and does
  * not look for them behind a reused shuffle: the second operator would get none, and its timers
  * and windows would never fire.
  *
  * Relies on columnar rules running before shuffles are reused, and on two shuffles being equal
  * only if their `advisoryPartitionSize` is. Only adaptive execution reads that, which streams
  * don't have.
  */
private[keystate] object SeparateExchanges extends Rule[SparkPlan] {

  val asColumnarRule: ColumnarRule = new ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = SeparateExchanges
  }

  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.collect { case exchange: ShuffleExchangeExec if isTimed(exchange) => () }.size < 2)
      plan
    else {
      var number = 0L
      plan.transform {
        case exchange: ShuffleExchangeExec if isTimed(exchange) =>
          number += 1
          exchange.copy(advisoryPartitionSize = Some(number))
      }
    }

  private def isTimed(exchange: SparkPlan) = exchange.exists(_.isInstanceOf[EventTimeWatermarkExec])
}
