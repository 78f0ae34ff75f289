package org.apache.spark.sql.keystate.files

import org.apache.spark.sql.execution.streaming.checkpointing.{OffsetMap, OffsetSeqMetadataV2}

/** The offset log's version 2, in which a line names its source. */
class NamedSourcesLogSuite extends LogsSuite {
  test("an entry with named sources is written as Spark writes it") {
    val named = OffsetSeqMetadataV2(7, 8, metadata.conf)
    writtenAlike(OffsetMap(Map("a" -> Some(offset), "b" -> None), named))
  }
}
