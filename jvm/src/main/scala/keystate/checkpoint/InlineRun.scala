package keystate.checkpoint

import java.util.zip.CRC32C

import keystate.backend.Change

/** A run small enough to be part of the version file, as a [[PlainRun]]. */
private[checkpoint] object InlineRun {

  /** The run, or None when it would be longer than `limit` bytes. */
  def encode(
      changes: Iterator[Change],
      limit: Long,
      version: Long,
      id: Option[String]
  ): Option[Run] = {
    val entries = new PlainRun.Entries
    val statistics = new RunStatistics
    while (changes.hasNext && entries.size <= limit) {
      val change = changes.next()
      entries.add(change)
      statistics.add(change)
    }
    Option.when(entries.size <= limit) {
      val content = entries.toByteArray
      val crc = new CRC32C
      crc.update(content)
      Run(
        source = new InlineSource(content),
        entries = statistics.entries,
        bytes = content.length.toLong,
        groups = statistics.groups,
        crc32c = crc.getValue.toInt,
        version = version,
        id = id
      )
    }
  }
}
