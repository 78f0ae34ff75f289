package org.apache.spark.sql.keystate.metrics

import scala.collection.mutable

import keystate.errors.KeystateErrors
import keystate.{Counter, Distribution, Gauge, Meter, MetricGroup}

/** The metrics of one instance of a function in the JVM. */
private[keystate] final class FunctionMetrics {
  import FunctionMetrics._

  private val metrics = mutable.LinkedHashMap.empty[String, Reporting]

  /** Whether there are any. */
  def nonEmpty: Boolean = metrics.nonEmpty

  /** Their report at the end of a micro-batch: the counts since the last report. */
  def report(): MetricValues = metrics.foldLeft(MetricValues.Empty) { case (all, (name, metric)) =>
    all.merge(metric.report(name))
  }

  /** The group whose metrics have names as they are given. */
  val group: MetricGroup = new Group("")

  private final class Group(scope: String) extends MetricGroup {
    override def counter(name: String): Counter = known[Counts](name)(new Counts)
    override def meter(name: String): Meter = known[Events](name)(new Events)
    override def distribution(name: String): Distribution = known[Values](name)(new Values)

    override def gauge(name: String, gauge: Gauge[Long]): Gauge[Long] = {
      metrics(scope + name) = new Asked(gauge)
      gauge
    }

    override def addGroup(name: String): MetricGroup = new Group(s"$scope$name.")

    private def known[M <: Reporting](name: String)(make: => M): M = {
      val wanted = make
      metrics.getOrElseUpdate(scope + name, wanted) match {
        case metric if metric.getClass == wanted.getClass => metric.asInstanceOf[M]
        case other => throw KeystateErrors.otherMetric(scope + name, other.kind)
      }
    }
  }
}

private object FunctionMetrics {
  sealed abstract class Reporting(val kind: String) {
    def report(name: String): MetricValues
  }

  sealed abstract class Counting(kind: String) extends Reporting(kind) {
    private var count = 0L
    private var reported = 0L

    protected def add(n: Long): Unit = count += n
    def getCount: Long = count

    override def report(name: String): MetricValues = {
      val counted = count - reported
      reported = count
      MetricValues(sums = Map(name -> counted))
    }
  }

  final class Counts extends Counting("counter") with Counter {
    override def inc(n: Long): Unit = add(n)
  }

  final class Events extends Counting("meter") with Meter {
    override def markEvent(n: Long): Unit = add(n)
  }

  final class Values extends Reporting("distribution") with Distribution {
    private var number = 0L
    private var sum = 0L
    private var least = Long.MaxValue
    private var greatest = Long.MinValue

    override def update(value: Long): Unit = {
      number += 1
      sum += value
      least = math.min(least, value)
      greatest = math.max(greatest, value)
    }

    override def report(name: String): MetricValues = {
      val totals = Map(s"$name.count" -> number, s"$name.sum" -> sum)
      val values =
        if (number == 0) MetricValues(totals)
        else MetricValues(totals, Map(s"$name.min" -> least), Map(s"$name.max" -> greatest))
      number = 0
      sum = 0
      least = Long.MaxValue
      greatest = Long.MinValue
      values
    }
  }

  final class Asked(gauge: Gauge[Long]) extends Reporting("gauge") {
    override def report(name: String): MetricValues = {
      val value = gauge.getValue()
      MetricValues(
        Map(s"$name.sum" -> value),
        Map(s"$name.min" -> value),
        Map(s"$name.max" -> value)
      )
    }
  }
}
