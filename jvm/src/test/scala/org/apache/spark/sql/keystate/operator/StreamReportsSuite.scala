package org.apache.spark.sql.keystate.operator

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StringType}

import keystate.SessionFixture
import keystate.config.Settings
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.forget.{ForgetFiles, Forgetting, ForgottenKey}
import org.apache.spark.sql.keystate.metrics.{OperatorReport, SubtaskReport}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, StateKind, StateSpec, TimeMode}

class StreamReportsSuite extends AnyFunSuite with SessionFixture {
  private val value =
    StateSpec("v", StateKind.Value, "v", LongType, None, StoredOrder.Natural)
  private val spec = OperatorSpec(None, None, TimeMode.ProcessingTime, timers = false, Seq(value))

  private def reportsOf(spec: OperatorSpec, settings: (String, String)*) = {
    val checkpoint = folder.resolve(UUID.randomUUID.toString)
    new ForgetFiles(new Path(checkpoint.toUri), new Configuration)
      .request(Seq(ForgottenKey(0, 17, Array[Byte](1, 2, 3))))
    val conf = new SQLConf
    settings.foreach { case (key, value) => conf.setConfString(key, value) }
    // As a plan, it can't be sent.
    val plan = new Object
    def onDriver[T](value: T): T = if (plan.hashCode == 0) value else value
    val info = StatefulOperatorStateInfo(s"$checkpoint/state", UUID.randomUUID, 0, 1, 2, None)
    // The first micro-batch of a run may be one that is run again, which takes no requests.
    Forgetting.of(info, new Configuration).plan(0)
    StreamReports.of(
      spec,
      info,
      Seq(AttributeReference("key", StringType)()),
      Map.empty,
      realTime = false,
      onDriver(0L),
      conf,
      onDriver(new Configuration)
    )
  }

  private def sent(reports: Seq[OperatorReport[StreamSubtask, _]]) =
    reports.filter(_.isSent(spark.sparkContext))

  private def namesOf(reports: Seq[AnyRef]) = reports.map(_.getClass.getSimpleName)

  test("tasks get the reports that they need, without what only the driver needs") {
    val all = reportsOf(
      spec.copy(
        timers = true,
        states = Seq(value.copy(maxEntries = Some(1))),
        broadcast = Seq(value.copy(name = "b", isBroadcast = true)),
        metrics = true
      ),
      Settings.BroadcastCheck.key -> "true",
      Settings.SampledKeys.key -> "1"
    )
    val reports = sent(all)
    assert(
      namesOf(all).diff(namesOf(reports)) == Seq("UndeclaredStates", "WorkerTimes") &&
        reports.size == 6
    )
    val bytes = SparkEnv.get.closureSerializer.newInstance().serialize(reports.toList)
    assert(bytes.limit() < 5000)
  }

  test("tasks of an operator without any feature get the keys to forget, and no more") {
    assert(namesOf(sent(reportsOf(spec))) == Seq("OperatorForgets"))
  }

  test("of what a subtask tells, the last counts") {
    object Report extends OperatorReport[Int, Int] {
      override protected def begin(subtask: Int, tell: Int => Unit): SubtaskReport =
        () => tell(subtask)
      def all: Map[Int, Int] = told
    }
    assert(Report.isSent(spark.sparkContext) && Report.all.isEmpty)
    Seq(0 -> 1, 1 -> 5, 0 -> 2).foreach { case (i, told) => Report.begin(i, told).ended() }
    assert(Report.all == Map(0 -> 2, 1 -> 5))
  }
}
