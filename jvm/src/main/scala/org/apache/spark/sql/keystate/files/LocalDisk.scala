package org.apache.spark.sql.keystate.files

import java.nio.channels.FileChannel
import java.nio.file.Path
import java.nio.file.StandardOpenOption.READ

/** Makes written files survive a power loss. */
private[files] trait LocalDisk {

  /** Syncs the content of a file. */
  def syncFile(channel: FileChannel, file: Path): Unit

  /** Syncs which files a folder has, under which names. */
  def syncFolder(folder: Path): Unit
}

private[files] object LocalDisk extends LocalDisk {
  override def syncFile(channel: FileChannel, file: Path): Unit = channel.force(true)

  override def syncFolder(folder: Path): Unit = {
    val channel = FileChannel.open(folder, READ)
    try channel.force(true)
    finally channel.close()
  }
}
