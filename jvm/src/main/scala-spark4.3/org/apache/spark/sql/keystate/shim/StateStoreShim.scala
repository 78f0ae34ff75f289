package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.types.StructType

/** Spark 4.3's `StateStore`, with the methods that Spark 4.2's does not have. */
private[keystate] trait StateStoreShim extends StateStore {

  /** Relies on Spark's `statestore` reader calling this for the families that it reads, with the
    * arguments of `createColFamilyIfAbsent` when it writes. For Keystate the two are the same: an
    * existing family is not created again.
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
