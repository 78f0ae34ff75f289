package org.apache.spark.sql.keystate.table

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

import keystate.keygroup.{KeyGroupRange, KeyGroups}
import org.apache.spark.sql.keystate.operator.{KeyReader, Routing}

/** Reads a table in parallel, by key groups: if the query has fewer partitions than cores, they are
  * divided. If the filters determine the keys, only these keys' entries are read.
  */
private[table] final class StateScan(
    name: String,
    table: StoredTable,
    wanted: StructType,
    filters: TableFilters,
    conf: Configuration,
    versions: (Long, Long) => Seq[TableVersion]
) extends Scan
    with Batch {
  override def readSchema(): StructType = wanted
  override def toBatch(): Batch = this

  override def description(): String = {
    val groups = keys match {
      case Some(found) if found.size == 1 => s"key group ${found.head.group}"
      case Some(found) => s"${found.size} keys"
      case None => "all key groups"
    }
    s"$name, $groups, columns ${wanted.fieldNames.mkString("[", ", ", "]")}"
  }

  override def planInputPartitions(): Array[InputPartition] = {
    val (first, last) = filters.versions
    val found = versions(first, last)
    val tasks = SparkSession.active.sparkContext.defaultParallelism
    val pieces = found.map { version =>
      keys.fold(version.pieces(math.max(1, tasks / found.size), table.maxParallelism)) { keys =>
        keys
          .groupBy(_.group)
          .map { case (group, of) =>
            val partition = KeyGroups.subtaskOf(group, version.partitions, table.maxParallelism)
            version.piece(partition, KeyGroupRange(group, group), of.map(_.bytes))
          }
          .toSeq
          .sortBy(_.partition)
      }
    }
    // One version is read by a task for each piece. Of many versions a task reads many pieces.
    val perTask = if (found.size == 1) 1 else math.max(1, pieces.map(_.size).sum / tasks)
    pieces.flatten.grouped(perTask).map(TablePieces(_): InputPartition).toArray
  }

  private lazy val keys: Option[Seq[WantedKey]] = filters.keys.map { rows =>
    val columns = DataTypeUtils.toAttributes(table.keySchema)
    val reader = new KeyReader(Routing.normalized(columns), columns, table.maxParallelism)
    // The reader gives one object for all keys, whose bytes change at the next one.
    rows
      .map(row => WantedKey(reader.group(row), reader.key(row).copy().getBytes))
      .distinctBy(_.bytes.toSeq)
  }

  override def createReaderFactory(): PartitionReaderFactory = new StateReaderFactory(
    table,
    wanted,
    SerializableConfiguration.broadcast(SparkSession.active.sparkContext, conf)
  )
}

/** A key whose entries are read. */
private[table] final case class WantedKey(group: Int, bytes: Array[Byte])

/** The pieces that one task reads. */
private[table] final case class TablePieces(pieces: Seq[TablePiece]) extends InputPartition
