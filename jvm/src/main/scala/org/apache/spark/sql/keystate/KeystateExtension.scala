package org.apache.spark.sql.keystate

import org.apache.spark.sql.SparkSessionExtensions

import org.apache.spark.sql.keystate.plan.{KeyedProcessStrategy, TransformWithStateRule}

/** Set as `spark.sql.extensions`. It plans Keystate's operators, and lets Spark's
  * `transformWithState` run on Keystate's provider.
  */
class KeystateExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => KeyedProcessStrategy)
    extensions.injectColumnar(_ => TransformWithStateRule.asColumnarRule)
  }
}
