package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator
import org.apache.spark.sql.types.StructType

/** Rows of some columns as JSON that `from_json` reads. Relies on what Spark's `to_json` uses.
  *
  * @param bare
  *   whether it is the value of the only column, not an object
  */
private[jvm] final class JsonText(columns: StructType, bare: Boolean) {
  private val named = if (bare) StructType(Seq(columns.head.copy(name = "key"))) else columns
  private val json = StructsToJsonEvaluator(JsonText.Options, named, Some("UTC"))

  def of(row: InternalRow): String = {
    val text = json.evaluate(row).toString
    if (bare) text.substring(JsonText.Before.length, text.length - 1) else text
  }
}

private object JsonText {

  /** By default times have only milliseconds. */
  private val Options = Map(
    "ignoreNullFields" -> "false",
    "timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
  )

  final val Before = """{"key":"""
}
