package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.RecordType
import org.apache.spark.util.NextIterator

import keystate.version.Manifest

/** Spark's change feed: what each version from `startVersion` to `endVersion` changed in a column
  * family.
  */
private[keystate] final class ChangeDataReader(
    provider: KeyGroupProvider,
    startVersion: Long,
    endVersion: Long,
    endId: Option[String],
    columnFamily: String
) extends NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] {

  private val records = for {
    manifest <- lineage().iterator
    family <- manifest.families.find(_.name == columnFamily).iterator
    codec = provider.codec("change feed", family)
    change <- provider.versions.readChanges(manifest, family)
    (kind, key, value) <- codec.records(family, change)
  } yield (kind, key, value, manifest.version - 1)

  override protected def getNext(): (RecordType.Value, UnsafeRow, UnsafeRow, Long) =
    if (records.hasNext) records.next()
    else {
      finished = true
      null
    }

  override protected def close(): Unit = ()

  /** The versions, oldest first. With ids, each version names the one that it was made from. */
  private def lineage(): Seq[Manifest] =
    (endVersion to startVersion by -1).foldLeft(List.empty[Manifest]) { (newer, version) =>
      val id = if (newer.isEmpty) endId else newer.head.baseId
      provider.versions.readManifest(version, id) :: newer
    }
}
