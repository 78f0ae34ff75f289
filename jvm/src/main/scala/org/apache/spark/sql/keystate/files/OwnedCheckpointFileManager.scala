package org.apache.spark.sql.keystate.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Manages the files of a checkpoint: local folders by [[LocalCheckpointFileManager]], object stores
  * by [[ObjectCheckpointFileManager]], all others as Spark does without a setting. It writes no log
  * entry for a query that lost its checkpoint to another driver.
  */
class OwnedCheckpointFileManager(path: Path, conf: Configuration) extends CheckpointFileManager {
  import OwnedCheckpointFileManager.CutOffEntry

  private val files = new CachingCheckpointFileManager(CheckpointFiles.select(path, conf))

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    CheckpointOwner.checkWrite(path)
    files.createAtomic(path, overwriteIfPossible)
  }
  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    CheckpointOwner.checkRead(path, files)
    files.list(path, file => !CutOffEntry.matches(file.getName) && filter.accept(file))
  }
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()
}

private object OwnedCheckpointFileManager {

  /** The remains of a log entry whose writer died: Spark's managers write to `.<batch>.<UUID>.tmp`,
    * and then rename the file. If there is one in the offset log and no entry, Spark would take the
    * checkpoint for another query's, and never start this one.
    */
  private val CutOffEntry = """\.\d+\.[0-9a-f-]{36}\.tmp""".r
}
