package org.apache.spark.sql.keystate

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

import org.apache.spark.sql.keystate.files.{CommitNotes, OwnedCheckpointFileManager}
import org.apache.spark.sql.keystate.operator.BeforeCommit

/** For the setting `spark.sql.streaming.checkpointFileManagerClass`. Spark also uses it for the
  * offset log and its other checkpoint files. Spark makes it by its class name, with this
  * constructor.
  */
class KeystateCheckpointFileManager(path: Path, conf: Configuration)
    extends OwnedCheckpointFileManager(path, conf) {

  /** Relies on Spark writing an entry of the commit log, `commits/<batch>`, when all tasks of the
    * micro-batch are done.
    */
  override def createAtomic(
      file: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    val entry = Option(file.getParent).filter(_.getName == "commits").flatMap { log =>
      file.getName.toLongOption.map(log.getParent -> _)
    }
    entry.foreach { case (checkpoint, batch) => BeforeCommit.run(checkpoint, batch) }
    val out = super.createAtomic(file, overwriteIfPossible)
    entry
      .flatMap { case (checkpoint, batch) => CommitNotes.take(checkpoint, batch) }
      .fold(out)(CommitNotes.writing(_, out))
  }
}
