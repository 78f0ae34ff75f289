package org.apache.spark.sql.keystate

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.types.{ArrayType, IntegerType, LongType}

import keystate.keygroup.KeyGroups

/** Reads a row's key and key group. */
private[keystate] final class KeyReader(
    keys: Seq[Expression],
    input: Seq[Attribute],
    maxParallelism: Int
) {
  private val keyOf = UnsafeProjection.create(keys, input)
  private val hashOf = UnsafeProjection.create(Seq(new Murmur3Hash(keys)), input)

  /** How many columns a key has. */
  val width: Int = keys.size

  /** The row's key; the same object at every call. */
  def key(row: InternalRow): UnsafeRow = keyOf(row)

  def group(row: InternalRow): Int = KeyGroups.groupOf(hashOf(row).getInt(0), maxParallelism)
}

private[keystate] object KeyReader {

  /** The key columns with every NaN and every zero the same, as Spark's own grouping has them. */
  def normalized(keys: Seq[Attribute]): Seq[Expression] =
    keys.map(NormalizeFloatingNumbers.normalize)

  /** What rows without keys are shuffled by: all of their columns, so that a task that runs again
    * sends each row where it went before.
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

  /** What rows are shuffled by, so that Spark's hash partitioning into `parallelism` partitions
    * sends every row to the subtask that owns its key group: the label of that subtask, looked up in
    * an array. Spark places a row by the murmur3 of this one integer; see `KeyGroups.label`.
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
