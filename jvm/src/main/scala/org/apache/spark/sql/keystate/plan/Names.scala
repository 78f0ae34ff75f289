package org.apache.spark.sql.keystate.plan

/** The names of columns and outputs. */
private[keystate] object Names {

  /** The first one that an earlier one is too, but for upper and lower case. */
  def repeated(names: Seq[String]): Option[String] =
    names.diff(names.distinctBy(_.toLowerCase)).headOption
}
