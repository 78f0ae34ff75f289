package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.types.{ArrayType, IntegerType, LongType}

import keystate.keygroup.KeyGroups

/** The shuffle expressions that send each row to the subtask of its key. */
private[keystate] object Routing {

  /** The key columns with all NaNs and all zeros made the same, as in Spark's own grouping. */
  def normalized(keys: Seq[Attribute]): Seq[Expression] =
    keys.map(NormalizeFloatingNumbers.normalize)

  /** The shuffle expression for rows without keys. It uses all of their columns, so that a task
    * that runs again sends each row to the same subtask.
    */
  def spreading(columns: Seq[Attribute], parallelism: Int): Expression =
    GetArrayItem(
      labels(parallelism),
      Pmod(new Murmur3Hash(columns), Literal(parallelism)),
      failOnError = false
    )

  private def labels(parallelism: Int) = Literal.create(
    Array.tabulate(parallelism)(KeyGroups.label),
    ArrayType(IntegerType, containsNull = false)
  )

  /** The shuffle expression with which Spark's hash partitioning into `parallelism` partitions
    * sends every row to the subtask that owns its key group. It is the subtask's label, looked up
    * in an array. Relies on Spark placing a row by the murmur3 hash of this one integer; see
    * `KeyGroups.label`.
    */
  def routing(keys: Seq[Expression], parallelism: Int, maxParallelism: Int): Expression = {
    val group = Pmod(new Murmur3Hash(keys), Literal(maxParallelism))
    val subtask = IntegralDivide(
      Multiply(Cast(group, LongType), Literal(parallelism.toLong)),
      Literal(maxParallelism.toLong)
    )
    GetArrayItem(labels(parallelism), Cast(subtask, IntegerType), failOnError = false)
  }
}
