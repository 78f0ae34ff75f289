package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings
import org.apache.spark.sql.keystate.store.StoreConfig

/** Bounds of a task's messages and of the worker's cache. The first message is small, so that the
  * worker starts early; from message to message the rows double, up to `messageRows`. A message
  * also ends when it has `messageBytes` of rows and states. A cache epoch ends when it has
  * `maxCachedKeys` keys or `cachedBytes` of states.
  */
private[keystate] final case class MessageSettings(
    firstMessageRows: Int,
    messageRows: Int,
    messageBytes: Long,
    maxCachedKeys: Int,
    cachedBytes: Long,
    inline: Inline
)

private[keystate] object MessageSettings {
  def from(conf: SQLConf): MessageSettings = {
    val rows = conf.arrowMaxRecordsPerBatch
    MessageSettings(
      firstMessageRows = math.min(1000, if (rows > 0) rows else 1000),
      messageRows = if (rows > 0) rows else 10000,
      messageBytes = math.min(conf.arrowMaxBytesPerBatch, 4L << 20),
      maxCachedKeys = Settings.MaxCachedKeys.of(StoreConfig.in(conf)),
      cachedBytes = 256L << 20,
      inline = Inline(Settings.InlineEntries.of(StoreConfig.in(conf)), bytes = 1L << 20)
    )
  }
}
