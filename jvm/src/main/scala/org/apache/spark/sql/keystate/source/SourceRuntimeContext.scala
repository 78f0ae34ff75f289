package org.apache.spark.sql.keystate.source

import keystate.MetricGroup
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.jvm.JvmRuntimeContext
import org.apache.spark.sql.keystate.jvm.state.{CurrentKey, JvmStateSpec}

/** The context that a source gets in `open`. It has no keyed state. */
private[source] final class SourceRuntimeContext(name: String, index: Int, of: Int)
    extends JvmRuntimeContext(new CurrentKey) {
  override protected def declared(state: String, declare: => JvmStateSpec): (JvmStateSpec, Int) =
    throw KeystateErrors.stateOfSource(state)

  override def getTaskName: String = name
  override def getIndexOfThisSubtask: Int = index
  override def getNumberOfParallelSubtasks: Int = of
  override def getMaxNumberOfParallelSubtasks: Int = of
  override def getAttemptNumber: Int = 0
  override def getKeyGroup(key: Any): Int = throw KeystateErrors.keyGroupOfSource()
  override def getMetricGroup: MetricGroup = throw KeystateErrors.metricsOfSource()
}
