package org.apache.spark.sql.keystate.state

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

import keystate.backend.{StateEntries, StateValue, WrappedEntries}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.spec.{SchemaEvolution, StateSpec}

/** Turns a stored value of any of a state's schemas into a value of the newest one. It goes through
  * all schemas in between, so the result is the same whether or not the value was written again
  * meanwhile.
  */
private[keystate] final class ValueUpgrade(state: StateSpec) {
  private val newest = state.schemas.size - 1
  private val rows: IndexedSeq[StructType] =
    state.schemas.map(StateSpec.rowSchema(state.kind, _)).toIndexedSeq
  private val steps: IndexedSeq[UnsafeProjection] = rows.zip(rows.drop(1)).map { case (from, to) =>
    UnsafeProjection.create(SchemaEvolution.project(from, to))
  }

  /** Marks a value that is stored now with the number of the newest schema. */
  def mark(value: Array[Byte]): Array[Byte] = StateValue.withSchemaId(value, newest)

  def apply(value: Array[Byte]): Array[Byte] =
    if (value == null) null
    else {
      // A value that was written before the type changed for the first time has no schema number.
      val schema = Math.max(StateValue.schemaId(value), 0)
      if (schema == newest) value
      else if (schema > newest)
        throw KeystateErrors.unknownSchema(state.name, schema, newest)
      else if (StateRows.isNull(value)) mark(value)
      else {
        var row = new UnsafeRow(rows(schema).length)
        StateRows.point(row, value)
        steps.drop(schema).foreach(step => row = step(row))
        StateValue.encode(row.getBytes, 0, row.getSizeInBytes, newest, StateValue.timestamp(value))
      }
    }
}

/** The entries of a state whose type has changed. An entry is written with the newest schema when
  * the function changes it. Until then it stays as it is.
  */
private[keystate] final class EvolvedEntries(entries: StateEntries, upgrade: ValueUpgrade)
    extends WrappedEntries(entries) {

  override protected def read(
      family: Int,
      group: Int,
      key: Array[Byte],
      value: Array[Byte]
  ): Array[Byte] = upgrade(value)

  override protected def written(
      family: Int,
      group: Int,
      key: Array[Byte],
      value: Array[Byte]
  ): Array[Byte] = upgrade.mark(value)
}

private[keystate] object EvolvedEntries {

  /** The entries of a state through which it is read and written: the stored entries themselves, if
    * its type never changed.
    */
  def of(state: StateSpec, entries: StateEntries): StateEntries =
    if (state.schemas.isEmpty) entries else new EvolvedEntries(entries, new ValueUpgrade(state))
}
