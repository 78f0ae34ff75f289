package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{StringType, StructType}

import keystate.DeadLetters
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.ObjectCodec

/** The policy for rows and timers whose calls fail.
  *
  * @param inputs
  *   the columns of the rows of each input
  * @param asJson
  *   whether a letter has its row as JSON, not as an element
  */
private[keystate] final case class DeadLetterSpec(
    policy: DeadLetters[_],
    inputs: Seq[StructType],
    asJson: Boolean
)

private[keystate] object DeadLetterSpec {

  /** Throws if the tag's dead letters have other rows than the inputs.
    *
    * @param elements
    *   the encoders of the inputs' elements
    * @param columns
    *   the columns of their rows
    */
  def of(
      policy: DeadLetters[_],
      elements: Seq[ExpressionEncoder[_]],
      columns: Seq[Seq[Attribute]]
  ): DeadLetterSpec = {
    val taken = ObjectCodec.expression(policy.tag.typeInfo.encoder).schema("row").dataType
    val types = elements.map(ObjectCodec.dataType)
    val typed = types.forall(_ == taken.asNullable)
    if (!typed && taken != StringType)
      throw KeystateErrors.declaration(
        s"Side output '${policy.tag.id}' takes letters of rows ${taken.catalogString}, but the rows " +
          s"are ${types.map(_.catalogString).mkString(" and ")}: give it DeadLetter of the element, " +
          "or DeadLetter[String] for rows as JSON."
      )
    DeadLetterSpec(policy, columns.map(DataTypeUtils.fromAttributes), asJson = !typed)
  }
}
