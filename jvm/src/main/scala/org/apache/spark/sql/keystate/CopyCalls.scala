package org.apache.spark.sql.keystate

import java.nio.file.{Files, Paths}
import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.{Column, Dataset}

import org.apache.spark.sql.keystate.SessionCheckpoints.{numbered, numbers}
import org.apache.spark.sql.keystate.canary.{Fork, Promotion}
import org.apache.spark.sql.keystate.edit.{EditedCheckpoint, NewCheckpoint, WrittenOperator}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}
import org.apache.spark.sql.keystate.savepoint.{
  CheckpointDeletion, CheckpointImport, CopyIdentity, Savepoint, SavepointList
}

/** Calls that copy, make, put in another's place or delete checkpoints. */
private[keystate] trait CopyCalls {
  protected def checkpoints: SessionCheckpoints

  /** Copies the files that a query needs to go on. Returns the last micro-batch in the copy.
    *
    * @param version
    *   the version of the state; a negative number for the last committed one
    * @param byReference
    *   whether run files are shared and not copied
    */
  def savepoint(checkpoint: String, path: String, version: Long, byReference: Boolean): Long =
    checkpoints.reading(checkpoint) { opened =>
      val target = checkpoints.place(path)
      val conf = checkpoints.conf
      if (byReference) Savepoint.byReference(opened, numbered(version), target, conf)
      else new Savepoint(opened, numbered(version), target, conf).write()
    }

  /** The savepoints of a checkpoint, as JSON. */
  def savepoints(checkpoint: String): String =
    new SavepointList(checkpoints.place(checkpoint), checkpoints.conf).run()

  /** The savepoints that are in one folder with a savepoint, which may be gone. */
  def savepointsBeside(checkpoint: String, savepoint: String): String =
    new SavepointList(checkpoints.place(checkpoint), checkpoints.conf)
      .run(Some(checkpoints.place(savepoint).getParent))

  /** Makes a [[Fork]]: for the other parameters see `savepoint`. */
  def fork(checkpoint: String, path: String, version: Long): Long =
    checkpoints.reading(checkpoint)(forkAt(path).make(_, numbered(version)))

  /** Keeps the inputs of a checkpoint's micro-batches, for its fork.
    *
    * @param sameKeys
    *   as for `edit`; empty if the fork was not edited
    */
  def keepBatches(
      checkpoint: String,
      fork: String,
      first: Long,
      last: Long,
      sameKeys: String
  ): Unit = {
    val operators: Long => Option[Long] =
      if (sameKeys.isEmpty) Some(_) else numbers(sameKeys).get
    checkpoints.reading(checkpoint)(forkAt(fork).keepBatches(_, first, last, operators))
  }

  /** Makes a kept micro-batch the pending one of a fork. */
  def beginBatch(fork: String, batch: Long): Unit = forkAt(fork).begin(batch)

  /** Deletes a fork, if it is there. */
  def deleteFork(fork: String): Unit = {
    checkpoints.stopped(fork)
    forkAt(fork).delete()
  }

  private def forkAt(path: String) = new Fork(checkpoints.place(path), checkpoints.conf)

  /** Throws if a promotion could not write its copy there. */
  def checkPromotionTarget(copy: String): Unit = {
    checkpoints.stopped(copy)
    forkAt(copy).checkFree()
  }

  /** Begins a [[Promotion]], which `endPromotion` has to end. */
  def beginPromotion(checkpoint: String, copy: String): Unit =
    promotion(checkpoint, copy, "[]").begin()

  def endPromotion(checkpoint: String, copy: String): Unit = promotion(checkpoint, copy, "[]").end()

  /** Puts a copy in the place of a checkpoint that is done with `batch`: see [[Promotion]].
    *
    * @param sameKeys
    *   as for `edit`
    */
  def promote(checkpoint: String, copy: String, batch: Long, sameKeys: String): Unit =
    promotion(checkpoint, copy, sameKeys).run(batch)

  /** Puts the checkpoint in its place again. Returns false if it is too late. */
  def undoPromotion(checkpoint: String, copy: String, batch: Long, sameKeys: String): Boolean =
    promotion(checkpoint, copy, sameKeys).undo(batch)

  private def promotion(checkpoint: String, copy: String, sameKeys: String) =
    new Promotion(
      checkpoints.stopped(checkpoint),
      checkpoints.stopped(copy),
      numbers(sameKeys),
      checkpoints.conf
    )

  /** The checkpoint that has the place of this one; empty if none has. */
  def movedTo(checkpoint: String): String = {
    val root = checkpoints.place(checkpoint)
    CheckpointOwner.moved(root, CheckpointFiles.create(root, checkpoints.conf)).getOrElse("")
  }

  /** Deletes a checkpoint, except for files that savepoints need. Returns how many run files stay.
    *
    * @param original
    *   for a savepoint that is gone already: the checkpoint that it was made from, which still
    *   keeps its files. Else empty
    */
  def deleteCheckpoint(checkpoint: String, original: String): Int = {
    val root = checkpoints.stopped(checkpoint)
    if (original.isEmpty) {
      val behind = CheckpointFiles.behindLink(root, checkpoints.conf)
      checkpoints.stopped(s"$behind")
      val kept = new CheckpointDeletion(behind, checkpoints.conf).run()
      // Hadoop does not see a link to nothing.
      if (behind != root) {
        val _ = Files.deleteIfExists(Paths.get(root.toUri.getPath))
      }
      kept
    } else {
      new SavepointList(checkpoints.place(original), checkpoints.conf).forget(root)
      0
    }
  }

  /** Makes a checkpoint of Keystate from one of Spark. Returns the last micro-batch in it. */
  def importCheckpoint(source: String, target: String): Long = {
    checkpoints.stopped(source)
    checkpoints.reading(source) { opened =>
      new CheckpointImport(checkpoints.session, opened, checkpoints.place(target)).run()
    }
  }

  /** Deletes a checkpoint that was imported only to be edited. Other folders are left alone: its name
    * has to begin with a dot, and it has to have Keystate's state.
    */
  def discardImported(checkpoint: String): Unit = {
    val root = checkpoints.stopped(checkpoint)
    val fs = root.getFileSystem(checkpoints.conf)
    if (root.getName.startsWith(".") && fs.exists(new Path(root, "state")))
      fs.delete(root, true): Unit
  }

  /** Makes a checkpoint for a new query from DataFrames.
    *
    * @param operators
    *   JSON of the operators; the lists that follow have an element for each of them
    * @param streams
    *   streams with the key columns, without rows
    * @param states
    *   the rows of states, with the columns of `StateEncoder`
    * @param sources
    *   how many sources the query will have
    */
  def create(
      target: String,
      operators: String,
      streams: JList[Dataset[_]],
      keys: JList[JList[Column]],
      states: JList[JList[Dataset[_]]],
      partitions: Int,
      sources: Int
  ): Unit = {
    val written = WrittenOperator.all(parse(operators).children, streams, keys, states)
    new NewCheckpoint(checkpoints.session, checkpoints.place(target))
      .write(written, partitions, sources)
  }

  /** Makes a changed copy of a stopped query's checkpoint. Returns the last micro-batch in it.
    *
    * @param operators
    *   JSON of the operators that are written; the other parameters are as for `create`
    * @param copied
    *   the operators that are copied unchanged; `copies` has their numbers in the copy
    * @param kind
    *   `copy`; `fork` for a [[Fork]]; `successor` for one that replaces the checkpoint, see
    *   [[Promotion]]
    * @param sameKeys
    *   the operators with unchanged keys, and their numbers in the copy: pairs in JSON
    */
  def edit(
      checkpoint: String,
      target: String,
      operators: String,
      streams: JList[Dataset[_]],
      keys: JList[JList[Column]],
      states: JList[JList[Dataset[_]]],
      copied: JList[Int],
      copies: JList[Int],
      kind: String,
      sameKeys: String
  ): Long = {
    checkpoints.stopped(checkpoint)
    val written = WrittenOperator.all(parse(operators).children, streams, keys, states)
    val unchanged = copied.asScala.map(_.toLong).zip(copies.asScala.map(_.toLong)).toSeq
    checkpoints.reading(checkpoint) { opened =>
      val fork = kind match {
        case "copy" => None
        case "fork" => Some(CopyIdentity())
        case "successor" => Some(CopyIdentity.ofSuccessor(opened))
      }
      new EditedCheckpoint(checkpoints.session, opened, checkpoints.place(target), fork)
        .write(unchanged, written, numbers(sameKeys))
    }
  }
}
