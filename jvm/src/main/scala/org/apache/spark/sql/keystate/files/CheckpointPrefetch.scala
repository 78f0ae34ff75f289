package org.apache.spark.sql.keystate.files

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.files.Concurrently

/** Reads in parallel the files that the start of a query will request: the last entries of the logs
  * and the metadata of the operators. The start itself requests one after the other, and a distant
  * store takes a while for each answer.
  *
  * A file that can't be read here is not in the cache: whoever needs it requests it again, and
  * reports the error.
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
