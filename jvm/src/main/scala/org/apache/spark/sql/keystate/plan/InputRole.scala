package org.apache.spark.sql.keystate.plan

/** What the second input of an operator is for.
  *
  * @param name
  *   what Python calls it
  */
private[keystate] sealed abstract class InputRole(val name: String)

private[keystate] object InputRole {

  /** For a function of two inputs. Within a micro-batch its rows come after those of the first. */
  case object Connected extends InputRole("connected")

  /** For a function of two inputs. The rows of both come by the first value of their orders. */
  case object Merged extends InputRole("merged")

  /** Initial state: its rows come before all of the first input, and emit nothing. */
  case object Initial extends InputRole("initial")

  /** All subtasks get its rows. It has no keys. */
  case object Broadcast extends InputRole("broadcast")

  /** The role of this name; None for an empty one. */
  def named(name: String): Option[InputRole] =
    if (name.isEmpty) None
    else
      Seq(Connected, Merged, Initial, Broadcast)
        .find(_.name == name)
        .orElse(throw new IllegalArgumentException(s"unknown role '$name' of an input"))
}
