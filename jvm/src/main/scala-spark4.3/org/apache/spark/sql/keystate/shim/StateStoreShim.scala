package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.types.StructType

/** Spark 4.3's `StateStore`, with the methods that Spark 4.2's does not have. */
private[keystate] trait StateStoreShim extends StateStore {

  /** Relies on that this differs from creating in nothing that is kept: readers of state register
    * the families that they read.
    */
  override def registerColFamily(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      encoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = createColFamilyIfAbsent(
    name,
    keySchema,
    valueSchema,
    encoderSpec,
    useMultipleValuesPerKey,
    isInternal
  )
}
