package org.apache.spark.sql.keystate.rescale

import org.apache.spark.sql.execution.streaming.checkpointing.{CommitMetadataBase, CommitMetadataV2}

object CommitEntry {

  /** An entry of checkpoint format v2, with the ids by operator and partition. */
  def of(ids: Map[Long, Array[Array[String]]]): CommitMetadataBase = CommitMetadataV2(0, Some(ids))
}
