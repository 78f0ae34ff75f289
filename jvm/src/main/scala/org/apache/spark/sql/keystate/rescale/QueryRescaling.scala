package org.apache.spark.sql.keystate.rescale

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import keystate.checkpoint.Rescaling
import keystate.config.Settings
import keystate.errors.{CheckpointException, KeystateErrors}
import keystate.files.LocalFolder
import org.apache.spark.sql.keystate.files.{
  CheckpointFiles, CheckpointOwner, OffsetEntry, QueryLogs
}
import org.apache.spark.sql.keystate.metadata.{CheckpointOperators, SparkStoreMetadata}
import org.apache.spark.sql.keystate.shim.LogEntries

/** Changes the number of partitions of a stopped query.
  *
  * Spark runs a query with the number of partitions in its last offset log entry. So first the
  * stores of the last committed version get version files for the new number ([[Rescaling]]); the
  * old files stay. Then the logs are changed, in this order:
  *   - with checkpoint format v2, the ids in the last commit entry;
  *   - the offset entry of the last committed micro-batch;
  *   - the offset entry of a pending micro-batch. It keeps its id and its offsets, and simply runs
  *     with the new number.
  *
  * Each of these is one atomic replacement of a file. After a crash between them a start without
  * Keystate finds the old number, the new one or, for a pending micro-batch, Spark's refusal of an
  * unfinished repartitioning. Doing the change again completes it; a restart with Keystate does so
  * by itself.
  *
  * The caller has taken the checkpoint ([[CheckpointOwner]]). A driver that had it before can still
  * commit the micro-batch that it is in, with the old number. So the number that counts is that of
  * the committed state ([[CommittedPartitions]]). If the log has another one, the log is corrected.
  *
  * With checkpoint format v1 the pending micro-batch's own version gets the new number too, if all
  * of it was written. This matters because a sink that already has the micro-batch skips it, and
  * then it is not computed again.
  */
private[keystate] final class QueryRescaling(session: SparkSession, checkpoint: String)
    extends Logging {
  import CheckpointOperators.isUnpartitioned
  import QueryRescaling._

  private val root = new Path(checkpoint)
  private val conf = session.sessionState.newHadoopConf()
  private val files = CheckpointFiles.ofRun(root, conf)
  private val operators = new CheckpointOperators(conf, root)
  private val offsets = QueryLogs.offsets(conf, root)
  private val local = new LocalFolder(() => Utils.createTempDir(namePrefix = "keystate-rescale"))
  private val commits = QueryLogs.commits(conf, root)

  /** Returns the previous number of partitions, which is `wanted` if there was nothing to do.
    *
    * @param wanted
    *   None keeps the number of the committed state, whatever the logs say
    */
  def run(wanted: Option[Int]): Int =
    try {
      checkProvider()
      change(wanted)
    } finally local.close()

  def checkProvider(): Unit = provider.filter(_ != Settings.ProviderClass).foreach { other =>
    throw KeystateErrors.foreignProvider(checkpoint, other)
  }

  /** The state store provider that the query ran with. None before its first micro-batch. */
  def provider: Option[String] = latest.flatMap { case (_, entry) =>
    OffsetEntry.setting(entry, Provider)
  }

  /** Whether Spark keeps the number of partitions in the offset log. */
  def logTells: Boolean = latest.forall { case (_, entry) => OffsetEntry.isTold(entry) }

  /** Whether the logs have another number than this. */
  def changesTo(partitions: Int): Boolean =
    latest.exists { case (batch, _) => !offsets.partitions(batch).contains(partitions) }

  private lazy val latest = offsets.latest

  private def change(wanted: Option[Int]): Int = latest match {
    case None =>
      if (commits.latest.isEmpty) dropUncommitted()
      wanted.getOrElse(0)
    case Some((latest, _)) =>
      val committed = commits.latest
      val before = offsets.partitions(latest)
      val entries = committed.toSeq.map(_._1).filter(_ < latest) :+ latest
      val pinned = entries.flatMap(offsets.partitions)
      // If nothing shows the number, and nothing is committed, it is the session's.
      val current = committed.fold(before.orElse(wanted).getOrElse(0)) { case (id, commit) =>
        committedPartitions.of(id, commit, offsets.partitions(id).orElse(before))
      }
      val partitions = wanted.getOrElse(current)
      if (current != partitions)
        committed.foreach { case (id, commit) => rescaleStores(id, commit, current, partitions) }
      if (current != partitions || pinned.exists(_ != partitions)) {
        if (committed.isEmpty) rescaleNothing(partitions)
        if (!committed.exists(_._1 == latest)) rescalePending(latest, partitions)
        dropMetadataOf(committed.fold(-1L)(_._1) + 1 to latest)
        entries.foreach(id =>
          replace(id, OffsetEntry.withPartitions(offsets.get(id).get, partitions))
        )
        logInfo(s"Rescaled $checkpoint from $current to $partitions partitions")
      }
      current
  }

  private lazy val committedPartitions = new CommittedPartitions(
    operators.all,
    operators.record(_).isDefined,
    sparkStores.get(_).exists(isUnpartitioned),
    operator =>
      (
        operators.storage(operator),
        sparkStores.get(operator).fold(Seq(StateStoreId.DEFAULT_STORE_NAME))(_.map(_.name))
      )
  )

  /** While the first batch is pending, these are the stores it has written so far. All metadata
    * exists before its first task begins: if some is missing, there is no state yet.
    */
  private lazy val sparkStores: Map[Long, Seq[SparkStoreMetadata]] = commits.latest match {
    case Some((batch, _)) => operators.sparkStores(Some(batch))
    case None =>
      try operators.sparkStores(latest.map(_._1))
      catch { case _: CheckpointException => Map.empty }
  }

  private def rescaleStores(
      batch: Long,
      commit: LogEntries.Commit,
      current: Int,
      partitions: Int
  ): Unit = {
    checkOperators(partitions)
    val ids = operators.all.map { operator =>
      val old = commit.stateUniqueIds.flatMap(_.get(operator))
      val stores = sparkStores.get(operator)
      def idsOf(store: Int): Seq[Option[String]] =
        old.fold(Seq.fill(current)(Option.empty[String]))(
          _.toSeq.map(of => Some(of(if (of.length > 1) store else 0)))
        )
      operator -> (stores match {
        case Some(spark) if isUnpartitioned(spark) => old.getOrElse(Array.empty)
        case Some(spark) =>
          val byStore = spark.zipWithIndex.map { case (store, i) =>
            rescaleSparkStore(store, batch, batch + 1, idsOf(i), partitions)
          }
          byStore.transpose.map(_.flatten.toArray).toArray
        case None =>
          rescaleStore(operator, batch + 1, idsOf(0), partitions).map(_.toArray).toArray
      })
    }
    if (commit.stateUniqueIds.isDefined) {
      CheckpointOwner.check(root)
      commits.replace(session, batch, LogEntries.withIds(commit, Some(ids.toMap)))
    }
  }

  private def replace(batch: Long, entry: LogEntries.Offsets): Unit = {
    CheckpointOwner.check(root)
    offsets.replace(batch, entry)
  }

  private def checkOperators(partitions: Int): Unit =
    operators.all.flatMap(operators.record(_)).foreach(_.checkParallelism(partitions))

  private def rescaleSparkStore(
      store: SparkStoreMetadata,
      batch: Long,
      version: Long,
      ids: Seq[Option[String]],
      partitions: Int
  ): Seq[Option[String]] = {
    val encoding =
      offsets.get(batch).flatMap(OffsetEntry.setting(_, Encoding)).getOrElse(DefaultEncoding)
    new SparkStoreRescaling(session, new Path(root, "state"), store, encoding)
      .run(version, ids, partitions)
  }

  private def rescaleStore(
      operator: Long,
      version: Long,
      ids: Seq[Option[String]],
      partitions: Int
  ): Seq[Option[String]] = Rescaling.run(
    operators.storage(operator),
    operator,
    StateStoreId.DEFAULT_STORE_NAME,
    version,
    ids,
    partitions,
    () => UUID.randomUUID.toString,
    local
  )

  /** The first micro-batch is pending: late attempts at it must not replace files that it writes
    * with the new number of partitions.
    */
  private def rescaleNothing(partitions: Int): Unit = {
    checkOperators(partitions)
    for (operator <- operators.all; record <- operators.record(operator))
      Rescaling.runEmpty(
        operators.storage(operator),
        operator,
        StateStoreId.DEFAULT_STORE_NAME,
        record.maxParallelism,
        partitions
      )
  }

  /** If a pending micro-batch has written all of its version, gives that version the wanted number
    * of partitions too.
    */
  private def rescalePending(batch: Long, partitions: Int): Unit = {
    checkOperators(partitions)
    val version = batch + 1
    operators.all.filterNot(sparkStores.get(_).exists(isUnpartitioned)).foreach { operator =>
      val counts = committedPartitions.complete(operator, version)
      if (!counts.contains(partitions))
        counts.headOption.foreach { count =>
          val ids = Seq.fill(count)(Option.empty[String])
          sparkStores.get(operator) match {
            case Some(stores) =>
              stores.foreach(rescaleSparkStore(_, batch, version, ids, partitions))
            case None => rescaleStore(operator, version, ids, partitions)
          }
        }
    }
  }

  /** Deletes the uncommitted state of a first micro-batch that is not in the logs: in real-time
    * mode a micro-batch gets its entry in the offset log at its end. Spark refuses to start a first
    * micro-batch if there is state. A state with more than one version stays: its logs are lost.
    */
  private def dropUncommitted(): Unit = {
    val state = new Path(root, "state")
    def names(folder: Path): Seq[String] = files.list(folder).toSeq.flatMap { found =>
      if (found.isDirectory) names(found.getPath) else Seq(found.getPath.getName)
    }
    if (
      files.exists(state) && names(state).collect { case Version(of) => of.toLong }.forall(_ <= 1)
    )
      files.delete(state)
  }

  /** Deletes metadata of a pending micro-batch: it has the old number, and is written again. */
  private def dropMetadataOf(batches: Seq[Long]): Unit = for {
    operator <- operators.all
    batch <- batches
  } files.delete(new Path(operators.folder(operator), s"_metadata/v2/$batch"))
}

private object QueryRescaling {

  /** The name of a version file, with any text after the version. */
  private val Version = """(\d+)(?:\D.*)?\.keystate""".r

  private val Provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val Encoding = SQLConf.STREAMING_STATE_STORE_ENCODING_FORMAT.key
  private val DefaultEncoding =
    "unsaferow" // of queries that were begun before Spark had this setting
}
