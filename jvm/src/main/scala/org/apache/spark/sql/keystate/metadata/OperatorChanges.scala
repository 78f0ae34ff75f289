package org.apache.spark.sql.keystate.metadata

import keystate.errors.KeystateErrors

/** Compares the stateful operators of a query that starts again with those of its checkpoint. State
  * belongs to an operator's number, and each start numbers a query's operators again. So operators
  * that change places would take each other's state. Spark compares only their number and their
  * class names, which all of Keystate's operators share. The users' names distinguish them.
  */
private[keystate] object OperatorChanges {

  /** @param kind
    *   Spark's name for one of its own operators; None for one of Keystate's
    * @param name
    *   the user's
    */
  final case class Operator(kind: Option[String], name: Option[String]) {
    def describe: String = name.map(n => s"'$n'").orElse(kind).getOrElse("without a name")
  }

  /** Throws if the query has other operators than its checkpoint, or has them in another order. A
    * name that the checkpoint does not have is a new name for the operator of that number.
    *
    * @param planned
    *   the query's operators, by number
    * @param recorded
    *   the checkpoint's
    */
  def check(checkpoint: String, planned: Seq[Operator], recorded: Seq[Operator]): Unit = {
    val moved = planned.zipWithIndex.flatMap { case (operator, now) =>
      operator.name.flatMap(movedFrom(_, now, planned, recorded)).map(before => (now, before))
    }
    val sameKinds = planned.map(_.kind.isEmpty) == recorded.map(_.kind.isEmpty)
    if (moved.nonEmpty || !sameKinds)
      throw KeystateErrors.operatorsChanged(
        checkpoint,
        planned.map(_.describe),
        recorded.map(_.describe),
        moved.map { case (now, before) => (planned(now).describe, before, now) },
        order(planned, recorded, moved.toMap)
      )
  }

  /** The number under which the checkpoint has this name, if that is another operator now. */
  private def movedFrom(
      name: String,
      now: Int,
      planned: Seq[Operator],
      recorded: Seq[Operator]
  ): Option[Int] = {
    def has(operators: Seq[Operator], number: Int) =
      operators.lift(number).flatMap(_.name).contains(name)
    if (has(recorded, now)) None
    else recorded.indices.find(before => has(recorded, before) && !has(planned, before))
  }

  /** The numbers in the checkpoint in the query's order, if its operators only changed places. */
  private def order(
      planned: Seq[Operator],
      recorded: Seq[Operator],
      moved: Map[Int, Int]
  ): Option[Seq[Int]] = {
    val stay = planned.indices.filter { i =>
      !moved.contains(i) && !moved.values.exists(_ == i) && recorded.isDefinedAt(i)
    }
    val left = planned.indices.filterNot(i => moved.contains(i) || stay.contains(i))
    val free = recorded.indices.filterNot(i => moved.values.exists(_ == i) || stay.contains(i))
    val known = moved ++ stay.map(i => i -> i) ++ left.zip(free)
    Option.when(
      planned.size == recorded.size && moved.values.toSet.size == moved.size &&
        known.forall { case (now, before) => planned(now).kind == recorded(before).kind }
    )(planned.indices.map(known))
  }
}
