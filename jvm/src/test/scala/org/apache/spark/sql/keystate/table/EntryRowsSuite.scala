package org.apache.spark.sql.keystate.table

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.types._

import keystate.backend.{Change, Layout, StateFamily}
import keystate.keygroup.KeyGroupRange

class EntryRowsSuite extends AnyFunSuite {
  private val properties = Map(
    "kind" -> "map",
    "keyType" -> StringType.json,
    "valueType" -> LongType.json,
    "order" -> "natural"
  )
  private val table = StoredTable(
    "",
    0,
    StateFamily(0, "seen", Layout.Grouped, properties),
    new StructType().add("user", StringType),
    maxParallelism = 8,
    ofChanges = false
  )
  private val piece = TablePiece(1, None, 1, 0, KeyGroupRange(0, 7), Nil)

  test("a column that is not asked for is not decoded") {
    // Whoever looks into it fails.
    val entry = Change(0, 3, Array.emptyByteArray, Array.emptyByteArray)
    val other = new EntryRows(table, Set(StoredTable.Partition))
    assert(
      other(piece, entry).map(_.getInt(table.schema.fieldIndex("partition_id"))).toSeq == Seq(0)
    )
    for (column <- Seq(StoredTable.Key, StoredTable.UserKey, StoredTable.UserValue))
      assertThrows[RuntimeException](new EntryRows(table, Set(column))(piece, entry).size)
  }
}
