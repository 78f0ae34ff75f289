package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.types.{StructField, StructType}

import keystate.OutputTag
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.{ExactDecimals, ObjectCodec}
import org.apache.spark.sql.keystate.plan.SideOutput

/** The outputs of a JVM function: its main output, and the side outputs that are read.
  *
  * @param side
  *   None if only the main output is read: then results are rows of that; else each result is a row
  *   with a struct for every output, and exactly one of them is not null
  */
private[keystate] final case class Outputs(
    main: ExpressionEncoder[Any],
    side: Option[Seq[Outputs.Side]] = None
) {
  def schema: StructType = side.fold(main.schema) { side =>
    StructType(StructField(Outputs.Main, main.schema) +: side.map(s => StructField(s.id, s.schema)))
  }

  /** Turns results into rows, for one thread. */
  def writer(name: Option[String]): Outputs.Writer = new Outputs.Writer(this, name)
}

private[keystate] object Outputs {

  /** The column of the main output where there are side outputs too. */
  val Main: String = SideOutput.Main

  final case class Side(id: String, encoder: ExpressionEncoder[Any]) {
    def schema: StructType = encoder.schema.asNullable
  }

  object Side {
    def apply(tag: OutputTag[_]): Side = Side(tag.id, ObjectCodec.expression(tag.typeInfo.encoder))
  }

  final class Writer(outputs: Outputs, name: Option[String]) {
    private val read = outputs.side.getOrElse(Nil)
    private val encoders = (outputs.main +: read.map(_.encoder)).toArray
    private val toRow = encoders.map(ExactDecimals.serializer)
    private val indexOf =
      read.map(_.id).zipWithIndex.map { case (id, i) => id -> (i + 1) }.toMap
    private val structs = new GenericInternalRow(encoders.length)
    private lazy val whole = UnsafeProjection.create(outputs.schema)

    /** The row of a result of the main output; a copy. */
    def main(result: Any): InternalRow =
      if (outputs.side.isEmpty) row(0, result).copy() else struct(0, result)

    /** The row of a side output's result; None if nobody reads that output. */
    def side(tag: OutputTag[_], result: Any): Option[InternalRow] =
      indexOf.get(tag.id).map(struct(_, result))

    private def struct(index: Int, result: Any): InternalRow = {
      structs.update(index, row(index, result))
      try whole(structs).copy()
      finally structs.setNullAt(index)
    }

    private def row(index: Int, result: Any): InternalRow =
      try toRow(index)(result)
      catch {
        case e: Exception =>
          throw KeystateErrors.result(name, encoders(index).schema.catalogString, e)
      }
  }
}
