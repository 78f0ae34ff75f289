package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.types.StructType

/** A side output of an operator of expressions.
  *
  * @param isRead
  *   whether it is read; else its rows are dropped
  */
private[keystate] final case class SideOutput(name: String, isRead: Boolean) {

  /** The output where those of these names are read. */
  def among(names: Seq[String]): SideOutput = copy(isRead = names.contains(name))
}

/** The declaration of an operator that may have a side output for late rows. */
private[keystate] trait DeclaresLate {
  def late: Option[SideOutput]
  def readsLate: Boolean = late.exists(_.isRead)
}

/** Relies on a Dataset whose logical plan is the object that it was made of, with its tags. */
private[keystate] object SideOutput {

  /** The name of the output for what goes to no side output. */
  val Main = "main"

  private val Reading = TreeNodeTag[Seq[String] => Option[LogicalPlan]]("keystate.sides")

  /** A plan that knows how to be made again with side outputs, by their names, if it reads none.
    *
    * @param declared
    *   those that it has
    */
  def noted(plan: LogicalPlan, declared: Iterable[SideOutput])(
      reading: Seq[String] => LogicalPlan
  ): LogicalPlan = {
    val known = declared.map(_.name).toSet
    if (known.nonEmpty && !declared.exists(_.isRead))
      plan.setTagValue(
        Reading,
        (names: Seq[String]) => Option.when(names.nonEmpty && names.forall(known))(reading(names))
      )
    plan
  }

  /** The plan with the side outputs of these names. None if it has no such ones. */
  def reading(plan: LogicalPlan, names: Seq[String]): Option[LogicalPlan] =
    plan.getTagValue(Reading).flatMap(_(names))

  /** The schema of results, and where side outputs are read, of a struct for each output.
    *
    * @param sides
    *   side outputs, each with the schema of its rows
    */
  def schema(main: StructType, sides: (Option[SideOutput], StructType)*): StructType = {
    val read = sides.collect { case (Some(side), rows) if side.isRead => side.name -> rows }
    if (read.isEmpty) main
    else
      read.foldLeft(new StructType().add(Main, main)) { case (all, (name, rows)) =>
        all.add(name, rows)
      }
  }

  /** A projection of an operator's results: where side outputs are read, in the struct of each output
    * but that of late rows.
    *
    * @param values
    *   makes the columns of a result of those of the operator
    */
  def projected(process: KeyedProcess, late: Option[SideOutput])(
      values: Seq[NamedExpression] => Seq[NamedExpression]
  ): LogicalPlan =
    if (!process.spec.sideOutputs) Project(values(process.output), process)
    else {
      val structs = process.output.map { output =>
        if (late.exists(side => side.isRead && side.name == output.name)) output
        else {
          val fields =
            output.dataType.asInstanceOf[StructType].zipWithIndex.map { case (field, i) =>
              val value = GetStructField(output, i)
              Alias(value, field.name)(explicitMetadata = Some(field.metadata))
            }
          val struct = CreateStruct.create(values(fields))
          Alias(If(IsNull(output), Literal(null, struct.dataType), struct), output.name)()
        }
      }
      Project(structs, process)
    }

  /** What a column of a result is. */
  def value(column: NamedExpression): Expression = column match {
    case Alias(child, _) => child
    case other => other
  }
}
