package org.apache.spark.sql.keystate.size

import keystate.version.Manifest

/** How large a partition's state is in a version.
  *
  * @param id
  *   of the version; None with checkpoint format v1
  * @param entries
  *   by the names of states
  * @param bytes
  *   of all its run files
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
