package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

/** The side output for late rows of an operator of expressions.
  *
  * @param isRead
  *   whether it is read; else these rows are dropped
  */
private[keystate] final case class LateOutput(name: String, isRead: Boolean) {
  def read: LateOutput = copy(isRead = true)
}

/** Relies on a Dataset whose logical plan is the object that it was made of, with its tags. */
private[keystate] object LateOutput {

  /** The name of the output for what is no late row. */
  val Main = "main"

  private val Reading = TreeNodeTag[Seq[String] => Option[LogicalPlan]]("keystate.late")

  /** A plan that knows how to be made again with the side output, if there is one that is not read.
    */
  def noted(plan: LogicalPlan, late: Option[LateOutput])(
      reading: LateOutput => LogicalPlan
  ): LogicalPlan = {
    late.filterNot(_.isRead).foreach { output =>
      note(plan)(names => Option.when(names == Seq(output.name))(reading(output.read)))
    }
    plan
  }

  /** Has a plan know how to be made again with side outputs. None if it has no such ones. */
  def note(plan: LogicalPlan)(reading: Seq[String] => Option[LogicalPlan]): Unit =
    plan.setTagValue(Reading, reading)

  /** The plan with the side outputs of these names. None if it has no such ones. */
  def reading(plan: LogicalPlan, names: Seq[String]): Option[LogicalPlan] =
    plan.getTagValue(Reading).flatMap(_(names))

  /** The schema of results, and where late rows are read, of a struct for either.
    *
    * @param rows
    *   the columns of late rows
    */
  def schema(main: StructType, late: Option[LateOutput], rows: Seq[Attribute]): StructType =
    late.filter(_.isRead).fold(main) { output =>
      new StructType().add(Main, main).add(output.name, DataTypeUtils.fromAttributes(rows))
    }
}
