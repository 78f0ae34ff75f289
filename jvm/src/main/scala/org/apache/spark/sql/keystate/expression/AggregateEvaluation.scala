package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, CreateNamedStruct, Expression, Literal, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.types.StructType

/** Computes aggregates of stored buffers, for those that read a checkpoint.
  *
  * @param columns
  *   the functions, as the state has their buffers
  * @param key
  *   the key columns
  * @param values
  *   the name and the value of each aggregate, over the key columns and the functions' results
  * @param results
  *   the functions' results in these
  */
private[keystate] final case class AggregateEvaluation(
    columns: Seq[AggregateColumn],
    key: Seq[Attribute],
    values: Seq[(String, Expression)],
    results: Seq[Attribute]
) {
  private def struct: Expression = CreateNamedStruct(values.flatMap { case (name, value) =>
    Seq(Literal(name), value)
  })

  def schema: StructType = struct.dataType.asInstanceOf[StructType]

  /** Computes them for one key after the other, of its row and the row of a stored value. The same row
    * each time.
    */
  def evaluator(): (InternalRow, UnsafeRow) => InternalRow = {
    val buffers = new AggregateBuffers(columns, AggregateInput.Begun(Nil), key, None)
    val told = key.map(column => AttributeReference(column.name, column.dataType)(column.exprId))
    val project = UnsafeProjection.create(Seq(struct), told ++ results)
    (key, value) => project(buffers.results(key, buffers.read(value))).getStruct(0, values.size)
  }
}
