package org.apache.spark.sql.keystate

import java.util.UUID

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
  private val offsets = QueryLogs.offsets(session, root)
  private val local = new LocalFolder(() => Utils.createTempDir(namePrefix = "keystate-rescale"))
  private val commits = QueryLogs.commits(session, root)

  /** Returns the number of partitions before; the same as `partitions` when nothing was to do. */
  def run(partitions: Int): Int =
    try {
      provider.filter(_ != KeystateErrors.ProviderClass).foreach { other =>
        throw KeystateErrors.foreignProvider(checkpoint, other)
      }
      change(partitions)
    } finally local.close()

  /** The state store provider that the query ran with; none before its first batch. */
  def provider: Option[String] =
    offsets.getLatest().flatMap { case (_, entry) => settingOf(entry, Provider) }

  private def change(partitions: Int): Int = offsets.getLatest() match {
    case None => partitions
    case Some((latest, entry)) =>
      val committed = commits.getLatest()
      val before = partitionsOf(entry)
      val entries = committed.toSeq.map(_._1).filter(_ < latest) :+ latest
      val pinned = entries.flatMap(id => offsets.get(id)).map(partitionsOf)
      val sparkStores = storesOfSpark(committed.map(_._1))
      val layout = committed.fold(before) { case (id, commit) =>
        layoutOf(id, commit, sparkStores)
      }
      if (layout != partitions || pinned.exists(_ != partitions)) {
        committed.foreach { case (id, commit) =>
          rescaleStores(id, commit, sparkStores, layout, partitions)
        }
        if (!committed.exists(_._1 == latest))
          rescalePending(latest, sparkStores, layout, partitions)
        dropMetadataOf(committed.fold(-1L)(_._1) + 1 to latest)
        entries.foreach(id => offsets.replace(id, withPartitions(offsets.get(id).get, partitions)))
        logInfo(s"Rescaled $checkpoint from $before to $partitions partitions")
      }
      before
  }

  /** How many partitions the committed state has: as many as the commit has ids, or, without ids, as
    * many as the batch ran with.
    */
  private def layoutOf(
      batch: Long,
      commit: CommitMetadataBase,
      sparkStores: Map[Long, Seq[SparkStore]]
  ): Int =
    commit.stateUniqueIds
      .flatMap(_.collectFirst {
        case (operator, ids) if !sparkStores.get(operator).exists(isUnpartitioned) => ids.length
      })
      .getOrElse(partitionsOf(offsets.get(batch).get))

  private def rescaleStores(
      batch: Long,
      commit: CommitMetadataBase,
      sparkStores: Map[Long, Seq[SparkStore]],
      layout: Int,
      partitions: Int
  ): Unit = {
    checkOperators(partitions)
    val ids = operators().map { operator =>
      val old = commit.stateUniqueIds.flatMap(_.get(operator))
      val stores = sparkStores.get(operator)
      def idsOf(store: Int): Seq[Option[String]] =
        old.fold(Seq.fill(layout)(Option.empty[String]))(
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
    if (commit.stateUniqueIds.isDefined)
      commits.replace(batch, commit.withStateUniqueIds(Some(ids.toMap)))
  }

  private def isUnpartitioned(stores: Seq[SparkStore]): Boolean = stores.forall(_.isUnpartitioned)

  /** The stores of the operators that are not Keystate's. */
  private def storesOfSpark(committed: Option[Long]): Map[Long, Seq[SparkStore]] = {
    val sparks = operators().filter(record(_).isEmpty).toSet
    if (sparks.isEmpty) Map.empty
    else
      committed.fold(Map.empty[Long, Seq[SparkStore]]) { batch =>
        SparkStore.all(session, root, batch).filter { case (operator, _) => sparks(operator) }
      }
  }

  private def checkOperators(partitions: Int): Unit =
    operators().flatMap(record).foreach(_.checkParallelism(partitions))

  private def record(operator: Long): Option[OperatorRecord] =
    OperatorRecord.read(new Path(root, s"state/$operator"), hadoopConf)

  private def rescaleSparkStore(
      store: SparkStore,
      batch: Long,
      version: Long,
      ids: Seq[Option[String]],
      partitions: Int
  ): Seq[Option[String]] = {
    val encoding = offsets.get(batch).flatMap(settingOf(_, Encoding)).getOrElse(DefaultEncoding)
    new SparkStoreRescaling(session, new Path(root, "state"), store, encoding)
      .run(version, ids, partitions)
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

  private def rescalePending(
      batch: Long,
      sparkStores: Map[Long, Seq[SparkStore]],
      layout: Int,
      partitions: Int
  ): Unit = {
    checkOperators(partitions)
    val version = batch + 1
    val ids = Seq.fill(layout)(Option.empty[String])
    def isComplete(operator: Long, store: String) =
      Rescaling.isComplete(storageOf(operator), operator, store, version, layout)
    operators().foreach { operator =>
      sparkStores.get(operator) match {
        case Some(stores) if isUnpartitioned(stores) =>
        case Some(stores) =>
          if (stores.forall(store => isComplete(operator, store.name)))
            stores.foreach(rescaleSparkStore(_, batch, version, ids, partitions))
        case None =>
          if (isComplete(operator, StateStoreId.DEFAULT_STORE_NAME))
            rescaleStore(operator, version, ids, partitions)
      }
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
  private val Provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val Encoding = SQLConf.STREAMING_STATE_STORE_ENCODING_FORMAT.key
  private val DefaultEncoding =
    "unsaferow" // of queries that were begun before the setting was made

  /** A setting that Spark keeps for the query's life. */
  def settingOf(entry: OffsetSeqBase, key: String): Option[String] =
    entry.metadataOpt.flatMap(_.conf.get(key))

  def partitionsOf(entry: OffsetSeqBase): Int =
    settingOf(entry, Partitions)
      .getOrElse(throw new IllegalStateException(s"no $Partitions in the offset log"))
      .toInt

  private def withPartitions(entry: OffsetSeqBase, partitions: Int): OffsetSeqBase =
    withSetting(entry, Partitions -> partitions.toString)

  def withSetting(entry: OffsetSeqBase, conf: (String, String)): OffsetSeqBase =
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
