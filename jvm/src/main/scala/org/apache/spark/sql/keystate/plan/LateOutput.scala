package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/** The side output for late rows of an operator of expressions: its plan is made again where that is
  * read.
  *
  * Relies on a Dataset whose logical plan is the object that it was made of, with its tags.
  */
private[keystate] object LateOutput {
  private val Reading = TreeNodeTag[(String, () => LogicalPlan)]("keystate.late")

  /** Notes on a plan how to make the one that has the side output as well. */
  def note(plan: LogicalPlan, name: String)(reading: => LogicalPlan): LogicalPlan = {
    plan.setTagValue(Reading, name -> (() => reading))
    plan
  }

  /** The plan with the side output of this name. None if it has no such one. */
  def reading(plan: LogicalPlan, name: String): Option[LogicalPlan] =
    plan.getTagValue(Reading).collect { case (`name`, made) => made() }
}
