package org.apache.spark.sql.keystate.plan

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.plans.physical.AllTuples
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

import keystate.config.Settings
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.files.CheckpointOwner
import org.apache.spark.sql.keystate.operator.QueryOperators
import org.apache.spark.sql.keystate.shim.ProviderCheck
import org.apache.spark.sql.keystate.store.StoreConfig

/** Lets Spark's own `transformWithState` run on Keystate's provider. Spark refuses that by the
  * provider's class name, although the operator needs only the `StateStore` contract.
  *
  * Relies on `IncrementalExecution`: it puts its own strategies before those of an extension, so
  * nodes are replaced after they are planned. Columnar rules run after it has filled in state info,
  * watermarks and batch times.
  *
  * A query that could not be rescaled, or that lost its checkpoint, fails here, whatever its
  * operators.
  */
private[keystate] object TransformWithStateRule extends Rule[SparkPlan] {

  val asColumnarRule: ColumnarRule = new ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = TransformWithStateRule
  }

  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.conf.stateStoreProviderClass != Settings.ProviderClass) plan
    else {
      val stateful = plan.collect { case operator: StatefulOperator => operator }
      if (stateful.nonEmpty) Settings.check(StoreConfig.in(plan.conf))
      // If the query may not go on, the micro-batch is not begun.
      stateful.headOption
        .flatMap(_.stateInfo)
        .map(_.checkpointLocation)
        .filter(_.nonEmpty)
        .foreach(state => CheckpointOwner.checkBegin(new Path(state).getParent))
      stateful.foreach(checkPartitions)
      QueryOperators.record(stateful, plan.session)
      ProviderCheck.without(plan)
    }

  /** Throws if the version that an operator begins with was committed for another number of
    * partitions: by the driver that had the checkpoint before, after this start had rescaled it.
    * Relies on the ids in the commit log, one for each partition; an operator without keys always
    * has one.
    */
  private def checkPartitions(operator: SparkPlan with StatefulOperator): Unit = for {
    info <- operator.stateInfo
    ids <- info.stateStoreCkptIds
    if ids.length != info.numPartitions && !operator.requiredChildDistribution.contains(AllTuples)
  } throw KeystateErrors.committedForOthers(
    new Path(info.checkpointLocation).getParent.toString,
    info.storeVersion - 1,
    ids.length,
    info.numPartitions
  )
}
