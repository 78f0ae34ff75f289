package keystate.version

import keystate.backend.ChangeSink
import keystate.files.Crc32c

/** Makes runs that are small enough to be part of the version file, as a [[PlainRun]]. */
private[keystate] object InlineRun {

  /** The run with these changes, of which there must be at least one; None if it would be longer
    * than `limit` bytes.
    */
  def encode(
      changes: ChangeSink => Unit,
      limit: Long,
      version: Long,
      id: Option[String]
  ): Option[Run] = {
    val entries = new PlainRun.Entries(limit, _ => throw TooLong)
    try {
      changes(entries)
      val content = entries.toByteArray
      Some(
        Run(
          source = new InlineSource(content),
          entries = entries.statistics.entries,
          bytes = content.length.toLong,
          groups = entries.statistics.groups,
          crc32c = Crc32c.of(content),
          version = version,
          id = id
        )
      )
    } catch { case TooLong => None }
  }

  /** Thrown to spare going through the rest of the changes. */
  private object TooLong extends RuntimeException(null, null, false, false)
}
