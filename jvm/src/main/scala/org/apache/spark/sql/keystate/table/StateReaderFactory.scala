package org.apache.spark.sql.keystate.table

import java.util.Arrays

import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

import keystate.backend.{Change, Expiry}
import keystate.checkpoint.StoreReader
import keystate.files.StoreLocation
import org.apache.spark.sql.keystate.files.{SparkCheckpointStorage, TaskFolder}

/** Goes to the tasks that read a table. */
private[table] final class StateReaderFactory(
    table: StoredTable,
    wanted: StructType,
    conf: Broadcast[SerializableConfiguration]
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val storage = new SparkCheckpointStorage(new Path(table.folder), conf.value.value)
    new TableReader(table, wanted, partition.asInstanceOf[TablePieces].pieces, storage)
  }
}

/** Reads pieces of a table, one after the other, in a task. */
private final class TableReader(
    table: StoredTable,
    wanted: StructType,
    pieces: Seq[TablePiece],
    storage: SparkCheckpointStorage
) extends PartitionReader[InternalRow] {
  private val local = TaskFolder("keystate-table")
  private val rowsOf = new EntryRows(table, wanted.fieldNames.toSet)
  private val projection = Pruned.projection(table.schema, wanted)
  private var cursor: AutoCloseable = () => ()
  private val rows = pieces.iterator.flatMap { piece =>
    entries(piece).flatMap(rowsOf(piece, _))
  }

  override def next(): Boolean = rows.hasNext
  override def get(): InternalRow = projection(rows.next())
  override def close(): Unit = cursor.close()

  private def entries(piece: TablePiece): Iterator[Change] = {
    val reader = new StoreReader(
      StoreLocation(table.operator, piece.partition, StoreLocation.DefaultStore),
      storage,
      local
    )
    val manifest = reader.manifest(piece.version, piece.id, piece.partitions)
    // Another state may have had the name before. Its number is not given again.
    manifest.families.find(f => f.name == table.family.name && f.id == table.family.id) match {
      case None => Iterator.empty
      case Some(family) =>
        def opened(found: Iterator[Change] with AutoCloseable): Iterator[Change] = {
          cursor.close()
          cursor = found
          found
        }
        def isWanted(key: Array[Byte]) = piece.keys.exists(Arrays.equals(_, key))
        if (table.ofChanges) {
          val changes = opened(reader.changes(manifest, family, piece.groups))
          if (piece.keys.isEmpty) changes
          else changes.filter(change => isWanted(keyOf(change)))
        } else {
          val isExpired = Expiry.inVersion(family.properties)
          val stored =
            if (piece.keys.isEmpty) opened(reader.entries(manifest, family, piece.groups))
            else if (table.timers.nonEmpty)
              opened(reader.entries(manifest, family, piece.groups))
                .filter(entry => isWanted(keyOf(entry)))
            else
              piece.keys.iterator.flatMap { key =>
                val (from, until) = rowsOf.state.range(key, "", "", isRange = true)
                reader.find(manifest, family, piece.groups.first, from, until)
              }
          stored.filterNot(entry => isExpired(entry.value))
        }
    }
  }

  private def keyOf(entry: Change): Array[Byte] =
    table.timers.fold(rowsOf.state.codec.groupingRow(entry.key).getBytes)(_.keyOf(entry.key))
}
