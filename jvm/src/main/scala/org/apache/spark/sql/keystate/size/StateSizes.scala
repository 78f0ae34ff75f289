package org.apache.spark.sql.keystate.size

import keystate.version.Manifest

/** The size of a partition's state in a version.
  *
  * @param id
  *   the id of the version; None with checkpoint format v1
  * @param entries
  *   the number of entries, by the names of states
  * @param bytes
  *   the bytes of all its run files
  */
private[keystate] final case class StateSizes(
    id: Option[String],
    entries: Map[String, Long],
    bytes: Long
)

private[keystate] object StateSizes {
  def of(version: Manifest): StateSizes = StateSizes(
    version.id,
    version.families.map(family => family.name -> version.entryCounts(family.id).total).toMap,
    version.runs.map(_.bytes).sum
  )
}
