package org.apache.spark.sql.keystate.files

import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf

/** The settings that Spark keeps in an entry of the offset log, for the query's whole life. */
private[keystate] object OffsetEntry {
  private val Partitions = SQLConf.SHUFFLE_PARTITIONS.key
  private val Most = 1000000 // a higher number can only be damage

  def setting(entry: OffsetSeqBase, key: String): Option[String] =
    entry.metadataOpt.flatMap(_.conf.get(key))

  def partitions(entry: OffsetSeqBase): Int =
    setting(entry, Partitions).flatMap(_.toIntOption).filter(n => 0 < n && n <= Most).getOrElse {
      throw new IllegalStateException(s"it has no valid number in $Partitions")
    }

  def withPartitions(entry: OffsetSeqBase, partitions: Int): OffsetSeqBase =
    withSetting(entry, Partitions -> partitions.toString)

  /** The entry of a query that has read nothing of its sources. */
  def withoutOffsets(entry: OffsetSeqBase, sources: Int): OffsetSeqBase = entry match {
    case v1: OffsetSeq => v1.copy(offsets = Seq.fill(sources)(None))
    case v2: OffsetMap => v2.copy(Map.empty, v2.metadata)
    case other => throw new IllegalStateException(s"unknown offset entry $other")
  }

  def withSetting(entry: OffsetSeqBase, conf: (String, String)): OffsetSeqBase =
    entry match {
      case v1: OffsetSeq =>
        v1.copy(metadataOpt = v1.metadataOpt.map {
          case metadata: OffsetSeqMetadata => metadata.copy(conf = metadata.conf + conf)
          case other => throw new IllegalStateException(s"unknown offset metadata $other")
        })
      case v2: OffsetMap =>
        v2.copy(metadata = v2.metadata.copy(conf = v2.metadata.conf + conf))
      case other => throw new IllegalStateException(s"unknown offset entry $other")
    }
}
