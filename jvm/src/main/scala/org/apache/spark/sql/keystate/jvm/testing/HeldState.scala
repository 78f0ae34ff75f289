package org.apache.spark.sql.keystate.jvm.testing

import org.apache.spark.sql.types.StructType

/** The content of an operator in a test after a micro-batch. Can be serialised.
  *
  * @param keyOfStates
  *   the key columns of states and timers; None if there were none
  * @param batch
  *   the number of that micro-batch
  * @param staticsRead
  *   the record of the inputs that are no streams; see
  *   [[org.apache.spark.sql.keystate.operator.StaticInputs]]
  * @param watermark
  *   in ms, as is `clock`
  */
final case class HeldState(
    maxParallelism: Int,
    keyOfStates: Option[StructType],
    batch: Long,
    staticsRead: Set[String],
    watermark: Long,
    clock: Long,
    subtasks: Seq[Seq[HeldFamily]]
)

/** The entries of one state of a subtask. */
final case class HeldFamily(
    name: String,
    layout: String,
    properties: Map[String, String],
    entries: Seq[HeldEntry]
)

/** An entry, as it is stored. */
final case class HeldEntry(group: Int, key: Array[Byte], value: Array[Byte])
