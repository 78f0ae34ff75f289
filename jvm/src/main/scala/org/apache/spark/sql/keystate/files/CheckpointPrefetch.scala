package org.apache.spark.sql.keystate.files

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.files.Concurrently

/** Reads side by side what the start of a query will ask for: the last entries of the logs and the
  * metadata of the operators. The start itself asks for one after the other, and in a store that is
  * far away each answer takes a while.
  *
  * What can't be read here is just not known: who needs it asks again, and says what is wrong.
  */
private final class CheckpointPrefetch(
    checkpoint: Path,
    files: CheckpointFileManager,
    memory: CheckpointCache
) {

  def run(): Unit =
    sideBySide(
      Seq(
        () => lastEntries(new Path(checkpoint, "offsets"), 2),
        () => lastEntries(new Path(checkpoint, "commits"), 1),
        () => folders("sources").foreach(lastEntries(_, 1)),
        () => folders("state").foreach(operator)
      )
    )

  private def operator(folder: Path): Unit = sideBySide(
    Seq(
      () => lastEntries(new Path(folder, "_metadata/v2"), 1),
      () => read(new Path(folder, "_keystate/operator"))
    )
  )

  /** The last entry, and in the offset log also the one before it. */
  private def lastEntries(log: Path, count: Int): Unit = {
    val batches = list(log).flatMap(_.getName.toLongOption).sorted.takeRight(count)
    Concurrently.map(batches)(batch => read(new Path(log, s"$batch"))): Unit
  }

  private def folders(name: String): Seq[Path] =
    list(new Path(checkpoint, name)).filter(_.getName.toLongOption.isDefined)

  private def list(folder: Path): Seq[Path] = {
    val before = memory.changes
    val found = files.list(folder).toSeq
    memory.listed(folder, found, before)
    found.map(_.getPath)
  }

  private def read(file: Path): Unit = {
    val before = memory.changes
    val content = Using.resource(files.open(file))(_.readNBytes(CheckpointCache.MostOfFile + 1))
    memory.read(file, content, before)
  }

  private def sideBySide(reads: Seq[() => Unit]): Unit = {
    Concurrently.map(reads) { read =>
      try read()
      catch { case NonFatal(_) => }
    }
    ()
  }
}
