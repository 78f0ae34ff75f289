package org.apache.spark.sql.keystate.plan

import org.json4s.jackson.JsonMethods.{compact, parse, render}
import org.json4s.{JArray, JObject, JString}

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.types.Metadata
import org.apache.spark.sql.{Column, DataFrame, Dataset}

/** The projections before and after a partial aggregate. Python sends them as SQL text in one call;
  * a Column built over py4j costs a call for each expression.
  *
  * @param read
  *   expressions of SQL
  * @param made
  *   columns with names
  */
private[keystate] final class Selected private (read: Seq[String], made: Seq[Column]) {

  def of(rows: Dataset[_])(fewer: DataFrame => DataFrame): DataFrame =
    fewer(rows.selectExpr(read: _*)).select(made: _*)
}

private[keystate] object Selected {

  /** @param json
    *   a list of the expressions before; and a list of those after, each with its name and its
    *   metadata
    */
  def fromJson(json: String): Selected = {
    val JArray(List(JArray(read), JArray(made))) = parse(json): @unchecked
    new Selected(
      read.collect { case JString(sql) => sql },
      made.map {
        case JArray(List(JString(sql), JString(name), metadata: JObject)) =>
          expr(sql).as(name, Metadata.fromJson(compact(render(metadata))))
        case other => throw new IllegalArgumentException(s"no column with a name: $other")
      }
    )
  }
}
