package org.apache.spark.sql.keystate.python.simulation

import org.json4s.JsonAST.{JString, JValue}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{DataType, StructType}

import org.apache.spark.sql.keystate.operator.{InputColumns, OperatorColumns}
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** The operator, as its worker declared it. */
private[simulation] final class SimulatedOperator(declared: JValue) {
  val spec: OperatorSpec = declared \ "spec" match {
    case JString(json) => OperatorSpec.fromJson(json)
    case other => throw new IllegalStateException(other.toString)
  }

  val columns: OperatorColumns = {
    val rows = DataTypeUtils.toAttributes(schema("rows"))
    val output = DataTypeUtils.toAttributes(schema("output"))
    OperatorColumns(Seq(InputColumns(rows, rows, rows.take(1))), rows.take(1), output)
  }

  private def schema(name: String) =
    DataType.fromJson(JsonMethods.compact(declared \ name)).asInstanceOf[StructType]
}
