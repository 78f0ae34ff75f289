package org.apache.spark.sql.keystate

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.local.LocalFs
import org.apache.hadoop.fs._

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.internal.SQLConf

/** For the setting `spark.sql.streaming.checkpointFileManagerClass`, which also the offset log and
  * Spark's other checkpoint files go by: local folders by [[LocalCheckpointFileManager]], all others
  * as without the setting. A query that lost its checkpoint to another driver writes no log entry.
  */
class KeystateCheckpointFileManager(path: Path, conf: Configuration) extends CheckpointFileManager {
  private val files = KeystateCheckpointFileManager.select(path, conf)

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    CheckpointOwner.checkWrite(path)
    files.createAtomic(path, overwriteIfPossible)
  }
  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()
}

private[keystate] object KeystateCheckpointFileManager {
  private val Setting = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
  private val Own = classOf[KeystateCheckpointFileManager].getName

  /** What manages a checkpoint's files: what the setting says and, without it, the quickest. */
  def create(path: Path, conf: Configuration): CheckpointFileManager =
    conf.get(Setting) match {
      case null | Own => select(path, conf)
      case _ => CheckpointFileManager.create(path, conf)
    }

  /** Writes a file whole: what fails leaves no file. */
  def write(files: CheckpointFileManager, file: Path, overwriteIfPossible: Boolean)(
      content: FSDataOutputStream => Unit
  ): Unit = {
    val out = files.createAtomic(file, overwriteIfPossible)
    try {
      content(out)
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }

  private def select(path: Path, conf: Configuration): CheckpointFileManager =
    if (isPlainLocal(path, conf)) new LocalCheckpointFileManager(path, conf)
    else {
      val others = new Configuration(conf)
      others.unset(Setting)
      CheckpointFileManager.create(path, others)
    }

  /** Whether Spark's own manager would go to Hadoop's local file system, and not to one that somebody
    * put in its place.
    */
  private def isPlainLocal(folder: Path, conf: Configuration): Boolean =
    try {
      val context =
        if (folder.toUri.getScheme == null) FileContext.getFileContext(conf)
        else FileContext.getFileContext(folder.toUri, conf)
      context.getDefaultFileSystem.getClass == classOf[LocalFs]
    } catch { case _: UnsupportedFileSystemException => false }
}
