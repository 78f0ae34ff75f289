package org.apache.spark.sql.keystate

import java.util.Optional

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.RelationPlugin

/** Set as `spark.connect.extensions.relation.classes` of a Spark Connect server: clients then make
  * their calls to [[PythonBridge]] by relations, as classic sessions do by py4j. Only such a server
  * loads this class, so a classic session does not need Spark's jar for Connect.
  */
class KeystateConnectPlugin extends RelationPlugin {
  override def transform(
      relation: Array[Byte],
      planner: SparkConnectPlanner
  ): Optional[LogicalPlan] =
    BridgeCall.read(relation) match {
      case Some(call) => Optional.of(call.on(PythonBridge.of(planner.session), planner))
      case None => Optional.empty()
    }
}
