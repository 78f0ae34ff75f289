package org.apache.spark.sql.keystate.python

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.jackson.JsonMethods
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.metrics.MetricValues
import org.apache.spark.sql.keystate.spec.Protocol

/** A worker's report of the function's own metrics. */
private[keystate] object MetricColumns {
  private implicit val formats: Formats = DefaultFormats

  /** The report, which only a worker's last answer in a pass has. None in other answers. */
  def received(column: String => ArrowColumnVector): Option[MetricValues] = {
    val report = column(Protocol.Answer.Metrics)
    Option.when(!report.isNullAt(0)) {
      val json = JsonMethods.parse(new String(report.getBinary(0), UTF_8))
      def values(fold: String) = (json \ fold).extract[Map[String, Long]]
      MetricValues(
        values(Protocol.Metrics.Sum),
        values(Protocol.Metrics.Min),
        values(Protocol.Metrics.Max)
      )
    }
  }
}
