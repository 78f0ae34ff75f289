package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, TimestampType}

import keystate.errors.KeystateErrors

/** An input of a join in time.
  *
  * @param what
  *   names the input in messages
  */
private[plan] final class JoinedInput(val input: OperatorInput, what: String) {

  /** The column with a row's time; on a stream it must be that of the watermark. */
  def time(name: String): Attribute = {
    val time = column(name, TimestampType)
    if (input.child.isStreaming && !isMarked(time))
      throw KeystateErrors.declaration(
        s"The $what time column '$name' has no watermark: call withWatermark on it before keying."
      )
    time
  }

  /** The column of the watermark. */
  def time: Attribute = input.columns.find(isMarked).getOrElse {
    throw KeystateErrors.declaration(
      s"The $what input has no watermark: call withWatermark before keying, or, for a table, name " +
        "the column with the time."
    )
  }

  def column(name: String, of: DataType): Attribute = {
    val found = input.columns.find(_.name == name).getOrElse {
      throw KeystateErrors.declaration(
        s"There is no column '$name' in ${input.columns.map(_.name).mkString("[", ", ", "]")}."
      )
    }
    if (found.dataType != of)
      throw KeystateErrors.declaration(
        s"Column '$name' is of type ${found.dataType.sql}; a join in time needs ${of.sql} there."
      )
    found
  }

  private def isMarked(column: Attribute) = column.metadata.contains(EventTimeWatermark.delayKey)
}

private[plan] object JoinedInput {

  /** Refuses a watermark that does not wait for the slowest stream. */
  def checkPolicy(): Unit = {
    val policy = SQLConf.get.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY)
    if (policy.equalsIgnoreCase("max"))
      throw KeystateErrors.declaration(
        s"${SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY.key} is max: by it a row would not wait " +
          "for the slower stream. Set it to min."
      )
  }

  /** Refuses columns of a result that have one name.
    *
    * @param instead
    *   what to do about it
    */
  def checkNames(names: Seq[String], instead: String): Unit =
    Names.repeated(names).foreach { name =>
      throw KeystateErrors.declaration(s"Two columns of the result are named '$name': $instead.")
    }
}
