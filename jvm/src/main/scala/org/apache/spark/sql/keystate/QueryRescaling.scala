package org.apache.spark.sql.keystate

import java.io.{ByteArrayOutputStream, OutputStream}
import java.nio.file.{Files, Paths, StandardCopyOption}
import java.util.{Arrays, UUID}

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.internal.SQLConf

import org.apache.spark.util.Utils

import keystate.checkpoint.{LocalFolder, Rescaling}

/** Changes the number of partitions of a stopped query.
  *
  * Spark runs a query with the number of partitions in its last offset log entry. So the stores of
  * the last committed version get version files for the new layout ([[Rescaling]]; the old files
  * stay), and then that number is changed in the log: with checkpoint format v2 first the ids in the
  * last commit, then the offset entry of the last committed batch, and last the entry of a pending
  * batch, which keeps its id and its offsets and simply runs with the new number. Each of these is
  * one atomic replacement of a file. After a crash between them the old layout, the new one, or, for
  * a pending batch, Spark's refusal of an unfinished repartitioning is what a start without Keystate
  * would find; doing the change again, which a restart does by itself, completes it.
  *
  * With format v1 the pending batch's own version gets the new layout too where all of it was written:
  * a sink that has the batch already skips it, and then it is not computed again.
  */
private[keystate] final class QueryRescaling(session: SparkSession, checkpoint: String)
    extends Logging {
  import QueryRescaling._

  private val hadoopConf = session.sessionState.newHadoopConf()
  private val root = new Path(checkpoint)
  private val files = CheckpointFileManager.create(root, hadoopConf)
  private val offsets = new OffsetEntries(session, new Path(root, "offsets").toString)
  private val local = new LocalFolder(() => Utils.createTempDir(namePrefix = "keystate-rescale"))
  private val commits = new CommitEntries(session, new Path(root, "commits").toString)

  /** Returns the number of partitions before; the same as `partitions` when nothing was to do. */
  def run(partitions: Int): Int =
    try change(partitions)
    finally local.close()

  private def change(partitions: Int): Int = offsets.getLatest() match {
    case None => partitions
    case Some((latest, entry)) =>
      val committed = commits.getLatest()
      val before = partitionsOf(entry)
      val entries = committed.toSeq.map(_._1).filter(_ < latest) :+ latest
      val pinned = entries.flatMap(id => offsets.get(id)).map(partitionsOf)
      val layout = committed.fold(before) { case (id, commit) => layoutOf(id, commit) }
      if (layout != partitions || pinned.exists(_ != partitions)) {
        committed.foreach { case (id, commit) => rescaleStores(id, commit, layout, partitions) }
        if (!committed.exists(_._1 == latest)) rescalePending(latest, layout, partitions)
        dropMetadataOf(committed.fold(-1L)(_._1) + 1 to latest)
        entries.foreach(id => offsets.replace(id, withPartitions(offsets.get(id).get, partitions)))
        logInfo(s"Rescaled $checkpoint from $before to $partitions partitions")
      }
      before
  }

  /** How many partitions the committed state has: as many as the commit has ids, or, without ids, as
    * many as the batch ran with.
    */
  private def layoutOf(batch: Long, commit: CommitMetadataBase): Int =
    commit.stateUniqueIds
      .flatMap(_.values.headOption)
      .map(_.length)
      .getOrElse(partitionsOf(offsets.get(batch).get))

  private def rescaleStores(
      batch: Long,
      commit: CommitMetadataBase,
      layout: Int,
      partitions: Int
  ): Unit = {
    val ids = operators().map { operator =>
      checkOperator(operator, partitions)
      val old = commit.stateUniqueIds.flatMap(_.get(operator)) match {
        case Some(partitionIds) => partitionIds.toSeq.map(id => Option(id.head))
        case None => Seq.fill(layout)(None)
      }
      operator -> rescaleStore(operator, batch + 1, old, partitions)
    }
    if (commit.stateUniqueIds.isDefined) {
      val newIds = ids.map { case (operator, partitionIds) =>
        operator -> partitionIds.map(id => Array(id.get)).toArray
      }
      commits.replace(batch, commit.withStateUniqueIds(Some(newIds.toMap)))
    }
  }

  private def checkOperator(operator: Long, partitions: Int): Unit = {
    val record = OperatorRecord.read(new Path(root, s"state/$operator"), hadoopConf).getOrElse {
      throw KeystateErrors.foreignOperator(operator, checkpoint)
    }
    if (partitions > record.maxParallelism) {
      throw KeystateErrors.parallelismTooHigh(partitions, record.maxParallelism)
    }
  }

  private def rescaleStore(
      operator: Long,
      version: Long,
      ids: Seq[Option[String]],
      partitions: Int
  ): Seq[Option[String]] = Rescaling.run(
    storageOf(operator),
    operator,
    StateStoreId.DEFAULT_STORE_NAME,
    version,
    ids,
    partitions,
    () => UUID.randomUUID.toString,
    local
  )

  private def rescalePending(batch: Long, layout: Int, partitions: Int): Unit = {
    val version = batch + 1
    val store = StateStoreId.DEFAULT_STORE_NAME
    operators()
      .filter(op => Rescaling.isComplete(storageOf(op), op, store, version, layout))
      .foreach { operator =>
        checkOperator(operator, partitions)
        rescaleStore(operator, version, Seq.fill(layout)(None), partitions)
      }
  }

  private def storageOf(operator: Long) =
    new SparkCheckpointStorage(new Path(root, s"state/$operator"), hadoopConf)

  private def operators(): Seq[Long] = {
    val state = new Path(root, "state")
    if (files.exists(state)) files.list(state).toSeq.flatMap(_.getPath.getName.toLongOption).sorted
    else Nil
  }

  /** The metadata that a pending batch wrote tells the old number; it is written again. */
  private def dropMetadataOf(batches: Seq[Long]): Unit = for {
    operator <- operators()
    batch <- batches
  } files.delete(new Path(root, s"state/$operator/_metadata/v2/$batch"))
}

private[keystate] object QueryRescaling {
  private val Partitions = SQLConf.SHUFFLE_PARTITIONS.key

  def partitionsOf(entry: OffsetSeqBase): Int =
    entry.metadataOpt
      .flatMap(_.conf.get(Partitions))
      .getOrElse(throw new IllegalStateException(s"no $Partitions in the offset log"))
      .toInt

  private def withPartitions(entry: OffsetSeqBase, partitions: Int): OffsetSeqBase = {
    val conf = Partitions -> partitions.toString
    entry match {
      case v1: OffsetSeq =>
        v1.copy(metadataOpt = v1.metadataOpt.map {
          case metadata: OffsetSeqMetadata => metadata.copy(conf = metadata.conf + conf)
          case other => throw new IllegalStateException(s"unknown offset metadata $other")
        })
      case v2: OffsetMap =>
        v2.copy(metadata = v2.metadata.copy(conf = v2.metadata.conf + conf))
      case other => throw new IllegalStateException(s"unknown offset entry $other")
    }
  }

  /** Replaces a log's file by one that was written whole; at any time one of them is there. */
  private def replace(file: Path, conf: Configuration)(write: OutputStream => Unit): Unit = {
    val files = CheckpointFileManager.create(file.getParent, conf)
    val content = new ByteArrayOutputStream
    write(content)
    if (files.isLocal && file.toUri.getScheme == "file") replaceLocal(file, content.toByteArray)
    else {
      val out = files.createAtomic(file, overwriteIfPossible = true)
      try {
        content.writeTo(out)
        out.close()
      } catch {
        case NonFatal(e) =>
          out.cancel()
          throw e
      }
      // A manager may leave the old file, and does not tell.
      val written = Using.resource(files.open(file))(_.readAllBytes())
      if (!Arrays.equals(written, content.toByteArray)) throw KeystateErrors.cannotReplace(file)
    }
  }

  /** Hadoop's local file system deletes the old file before it renames the new one, and replaces the
    * checksum only then. Without a checksum a file is read unchecked.
    */
  private def replaceLocal(file: Path, content: Array[Byte]): Unit = {
    val target = Paths.get(file.toUri.getPath)
    val fresh = target.resolveSibling(s".${target.getFileName}.${UUID.randomUUID}.tmp")
    Files.write(fresh, content)
    Files.deleteIfExists(target.resolveSibling(s".${target.getFileName}.crc"))
    Files.move(fresh, target, StandardCopyOption.ATOMIC_MOVE)
    ()
  }

  /** The offset log, whose entries Spark itself never replaces. */
  private final class OffsetEntries(session: SparkSession, path: String)
      extends OffsetSeqLog(session, path) {
    def replace(batch: Long, entry: OffsetSeqBase): Unit =
      QueryRescaling.replace(batchIdToPath(batch), session.sessionState.newHadoopConf())(
        serialize(entry, _)
      )
  }

  /** Likewise the commit log. */
  private final class CommitEntries(session: SparkSession, path: String)
      extends CommitLog(session, path) {
    def replace(batch: Long, entry: CommitMetadataBase): Unit =
      QueryRescaling.replace(batchIdToPath(batch), session.sessionState.newHadoopConf())(
        serialize(entry, _)
      )
  }
}
