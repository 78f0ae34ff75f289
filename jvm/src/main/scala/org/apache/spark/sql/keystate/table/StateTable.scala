package org.apache.spark.sql.keystate.table

import java.util.{Collections, EnumSet, Map => JMap, Set => JSet}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, TableCapability}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table that can only be read. */
private[table] abstract class ReadTable(override val name: String) extends SupportsRead {
  override def capabilities(): JSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)
  override def properties(): JMap[String, String] = Collections.emptyMap()
}

/** A state, or the changes of one.
  *
  * @param versions
  *   the versions that are read, within this range
  */
private[table] final class StateTable(
    name: String,
    stored: StoredTable,
    conf: Configuration,
    versions: (Long, Long) => Seq[TableVersion]
) extends ReadTable(name) {
  override def schema(): StructType = stored.schema

  override def properties(): JMap[String, String] =
    (stored.family.properties - "kind" + ("operator" -> s"${stored.operator}") ++
      stored.family.properties.get("kind").map("state_kind" -> _)).asJava

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ScanBuilder with SupportsPushDownV2Filters with SupportsPushDownRequiredColumns {
      private var wanted = stored.schema
      private var filters = new TableFilters(Nil, stored)

      override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
        filters = new TableFilters(predicates.toSeq, stored)
        predicates
      }

      override def pushedPredicates(): Array[Predicate] = filters.used

      override def pruneColumns(required: StructType): Unit =
        wanted = Pruned.readable(stored.schema, required)

      override def build(): Scan = new StateScan(name, stored, wanted, filters, conf, versions)
    }
}

/** A table whose few rows the driver reads. */
private[table] final class DriverTable(
    name: String,
    rowSchema: StructType,
    content: => Seq[InternalRow]
) extends ReadTable(name) {
  override def schema(): StructType = rowSchema

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new LocalScan {
      override def readSchema(): StructType = rowSchema
      override def rows(): Array[InternalRow] = content.toArray
    }
}
