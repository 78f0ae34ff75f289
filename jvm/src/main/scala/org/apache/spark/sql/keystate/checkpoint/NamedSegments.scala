package org.apache.spark.sql.keystate.checkpoint

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.keystate.files.{CheckpointFiles, QueryLogs}
import org.apache.spark.sql.keystate.shim.LogEntries
import org.apache.spark.sql.keystate.source.SourceStream

/** The files of stateful sources that the offset log names. Files of its newest entry are needed:
  * they have the rows of that micro-batch, and the state that the sources continue from. A running
  * query deletes the files of an entry when it begins the second one after it.
  */
private[keystate] object NamedSegments {

  /** The files that an entry names, as paths in the checkpoint. */
  def of(entry: LogEntries.Offsets): Seq[String] = for {
    source <- LogEntries.offsetLines(entry, "").indices
    offset <- LogEntries.offset(entry, source)
    // Offsets of other sources may have a number of a batch too, but not such an id.
    name <- SourceStream.segmentOf(offset.json) if name.id.matches(CheckpointFiles.Uuid)
  } yield s"sources/$source/${name.file}"

  /** The missing files of the newest entry. A query may run meanwhile. */
  def missing(root: Path, conf: Configuration): Seq[Path] = {
    val log = QueryLogs.offsets(conf, root)
    val files = CheckpointFiles.create(root, conf)
    @tailrec def look(): Seq[Path] = log.latest match {
      case None => Nil
      case Some((batch, entry)) =>
        val gone = of(entry).map(new Path(root, _)).filterNot(files.exists)
        if (gone.nonEmpty && log.batches.lastOption.exists(_ > batch)) look() else gone
    }
    look()
  }
}
