package org.apache.spark.sql.keystate.operator

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings
import org.apache.spark.sql.keystate.forget.OperatorForgets
import org.apache.spark.sql.keystate.metadata.UndeclaredStates
import org.apache.spark.sql.keystate.metrics.{KeySampling, OperatorReport, WorkerTimes}
import org.apache.spark.sql.keystate.size.{Budget, SizeWatch}
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.store.StoreConfig

/** All features that ride on the subtasks of a stream's operator. */
private[operator] object StreamReports {

  /** Those of a micro-batch. Where two have a metric of the same name, the first one's counts.
    *
    * @param keys
    *   the key columns
    * @param measured
    *   what Spark's runner measures of Python workers
    * @param millis
    *   when the micro-batch began
    */
  def of(
      spec: OperatorSpec,
      info: StatefulOperatorStateInfo,
      keys: Seq[Attribute],
      measured: Map[String, SQLMetric],
      realTime: Boolean,
      millis: => Long,
      conf: SQLConf,
      hadoopConf: => Configuration
  ): Seq[OperatorReport[StreamSubtask, _]] = {
    val settings = StoreConfig.in(conf)
    val every = if (keys.isEmpty) 0 else Settings.SampledKeys.of(settings)
    def checksBroadcast = spec.broadcast.nonEmpty && Settings.BroadcastCheck.of(settings)
    def keySchema = DataTypeUtils.fromAttributes(keys)
    val budget = Budget.of(spec.states, settings)
    Seq(
      Option.when(checksBroadcast)(new BroadcastAgreement(spec.name, info.storeVersion)),
      Option.when(spec.timers)(new NextTimer),
      Some(new SizeWatch(info, spec.name, budget, millis, keySchema, hadoopConf)),
      Option.when(every > 0)(new KeySampling(every, keys, info.queryRunId, info.operatorId)),
      Some(new UndeclaredStates(info)),
      Some(new OperatorForgets(info, keys.nonEmpty, hadoopConf)),
      Some(new WorkerTimes(measured)),
      Option.when(spec.metrics || realTime)(new FunctionReport)
    ).flatten
  }
}
