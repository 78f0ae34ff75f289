package org.apache.spark.sql.keystate.files

import org.apache.spark.sql.internal.SQLConf

import org.apache.spark.sql.keystate.shim.LogEntries

/** The settings that Spark keeps in an entry of the offset log, for the query's whole life. */
private[keystate] object OffsetEntry {
  private val Partitions = SQLConf.SHUFFLE_PARTITIONS.key
  private val Most = 1000000 // a higher number can only be damage

  def setting(entry: LogEntries.Offsets, key: String): Option[String] =
    LogEntries.metadata(entry).flatMap(_.conf.get(key))

  /** The number of partitions with which the micro-batch was started. None if the entry does not
    * have it. Relies on `OffsetSeqMetadataV2` of Spark's entries of version 2, which leaves it out:
    * a number there is Keystate's, from a rescale. Spark takes the entry's number if there is one,
    * and else the session's.
    */
  def partitions(entry: LogEntries.Offsets): Option[Int] = setting(entry, Partitions) match {
    case None if !isTold(entry) => None
    case found =>
      Some(found.flatMap(_.toIntOption).filter(n => 0 < n && n <= Most).getOrElse {
        throw new IllegalStateException(s"it has no valid number in $Partitions")
      })
  }

  /** Whether Spark writes the number into such entries. */
  def isTold(entry: LogEntries.Offsets): Boolean = LogEntries.version(entry) < 2

  def withPartitions(entry: LogEntries.Offsets, partitions: Int): LogEntries.Offsets =
    withSetting(entry, Partitions -> partitions.toString)

  /** The entry of a query that has read nothing of its sources. */
  def withoutOffsets(entry: LogEntries.Offsets, sources: Int): LogEntries.Offsets =
    LogEntries.withoutOffsets(entry, sources)

  def withSetting(entry: LogEntries.Offsets, conf: (String, String)): LogEntries.Offsets =
    LogEntries.withSetting(entry, conf)
}
