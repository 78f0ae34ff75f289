package org.apache.spark.sql.keystate

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSessionExtensions

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.plan.{
  KeyedProcessStrategy, SeparateExchanges, TransformWithStateRule
}
import org.apache.spark.sql.keystate.shim.SparkLine

/** Set as `spark.sql.extensions`. It plans Keystate's operators, lets Spark's `transformWithState` run
  * on Keystate's provider, and keeps watermarks where Spark loses them. With a Spark that this jar is
  * not for, no session can be made: better than an error of linking in the middle of a query.
  */
class KeystateExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    KeystateExtension.check(SPARK_VERSION)
    extensions.injectPlannerStrategy(_ => KeyedProcessStrategy)
    extensions.injectColumnar(_ => TransformWithStateRule.asColumnarRule)
    extensions.injectColumnar(_ => SeparateExchanges.asColumnarRule)
    SparkLine.Rules.foreach(rule => extensions.injectColumnar(_ => rule))
  }
}

private[keystate] object KeystateExtension {
  def check(running: String): Unit =
    if (!running.startsWith(s"${SparkLine.Name}."))
      throw KeystateErrors.otherSpark(SparkLine.Name, running)
}
