package org.apache.spark.sql.keystate.files

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** What sinks note with a micro-batch in the commit log: what the attempt that counts has prepared.
  * An entry is written once, so a note is there if and only if its attempt is the one that counts,
  * whichever driver wrote it.
  *
  * Relies on the form of Spark's entries, a line with the version and one with JSON, and on Spark
  * reading no further: the note is the third line.
  */
private[keystate] object CommitNotes {

  /** The folder of a checkpoint with the files that notes name. */
  final val StagedFolder = "_keystate/staged"

  /** @param text
    *   one line
    * @param committed
    *   what to do on the query's thread once the entry is in the log; if it throws, the query fails
    */
  final case class Note(text: String, committed: () => Unit)

  /** By checkpoint: the note for the entry that the query of this driver writes next. */
  private val notes = mutable.Map.empty[Path, (Long, Note)]

  /** Replaces the note of an attempt before. */
  def put(checkpoint: Path, batch: Long, note: Note): Unit = notes.synchronized {
    notes(CheckpointFiles.plainPlace(checkpoint)) = batch -> note
  }

  def take(checkpoint: Path, batch: Long): Option[Note] = notes.synchronized {
    notes.remove(CheckpointFiles.plainPlace(checkpoint)).collect { case (`batch`, note) => note }
  }

  private[files] def line(text: String): Array[Byte] = s"\n$text".getBytes(UTF_8)

  private[files] def noteOf(entry: Array[Byte]): Option[String] =
    new String(entry, UTF_8).linesIterator.drop(2).nextOption().filter(_.nonEmpty)

  /** Passes an entry on, with its note. */
  def writing(note: Note, entry: CancellableFSDataOutputStream): CancellableFSDataOutputStream =
    new CancellableFSDataOutputStream(entry) {
      private var ended = false

      override def close(): Unit = if (!ended) {
        entry.write(line(note.text))
        entry.close()
        ended = true
        note.committed()
      }

      // Spark cancels after any error, also when the entry is there.
      override def cancel(): Unit = if (!ended) {
        ended = true
        entry.cancel()
      }
    }
}

/** A sink with work to do once a micro-batch is in the commit log. */
private[keystate] trait CommittingSink {

  /** Called on the query's thread when this driver owns the checkpoint, before it reads its logs.
    *
    * @param query
    *   the id of the query
    */
  def begin(checkpoint: Path, query: String): Unit
}
