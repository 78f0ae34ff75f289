package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, CollationAwareMurmur3Hash, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper.{
  LeftSide, RightSide
}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.SymmetricHashJoinStateManager
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  StateStoreColumnFamilySchemaUtils, TransformWithStateVariableInfo
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** The columns of the keys in the state of Spark's own operators, which Spark itself describes from
  * 4.2 on.
  */
private[keystate] object StateKeys {

  /** The columns by which Spark shuffles, of all columns of a key. The keys of joins of format 4
    * have a time too.
    */
  def withoutTime[T](spec: KeyStateEncoderSpec, columns: Seq[T]): Seq[T] = spec match {
    case _: TimestampAsPrefixKeyStateEncoderSpec | _: TimestampAsPostfixKeyStateEncoderSpec =>
      columns.dropRight(1)
    case _ => columns
  }

  /** The hash by which Spark shuffles a key's rows, computed from the key in the state.
    *
    * @param joinFormat
    *   the format of a stream-stream join's state
    * @param variable
    *   the state of transformWithState that the family belongs to
    */
  def shuffleHash(
      operator: String,
      store: String,
      family: String,
      spec: KeyStateEncoderSpec,
      keys: StructType,
      joinFormat: Option[Int],
      variable: Option[TransformWithStateVariableInfo]
  ): UnsafeRow => Int = {
    val extractor =
      StatePartitionKeyExtractorFactory.create(operator, keys, store, family, joinFormat, variable)
    val shuffled = withoutTime(spec, extractor.partitionKeySchema)
    val columns = shuffled.zipWithIndex.map { case (column, i) =>
      BoundReference(i, column.dataType, column.nullable)
    }
    val hash = UnsafeProjection.create(Seq(new CollationAwareMurmur3Hash(columns)))
    key => hash(extractor.partitionKey(key)).getInt(0)
  }

  /** The state of transformWithState that a column family belongs to. */
  def stateOf(family: String): String = StateStoreColumnFamilySchemaUtils.getBaseStateName(family)

  def isInternal(family: String): Boolean =
    StateStoreColumnFamilySchemaUtils.isInternalColFamily(family)

  /** Whether a stream-stream join keeps several values of one key in a family. */
  def isListOfJoin(family: String): Boolean =
    SymmetricHashJoinStateManager.allStateStoreNamesV4(LeftSide, RightSide).contains(family)
}
