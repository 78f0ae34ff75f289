package org.apache.spark.sql.keystate.savepoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings
import keystate.errors.{DamagedFileException, KeystateErrors}
import org.apache.spark.sql.keystate.checkpoint.{CommittedBatch, QueryCheckpoint}
import org.apache.spark.sql.keystate.files.{OffsetEntry, QueryLogs, SparkFiles}
import org.apache.spark.sql.keystate.metadata.SparkStoreMetadata
import org.apache.spark.sql.keystate.shim.LogEntries

/** Makes a checkpoint of Keystate from one that Spark's own state store providers wrote. It is the
  * same query after the same micro-batch. The state is in Keystate's files, and the offset log
  * names Keystate's provider, so that Spark uses it when the query continues. A pending micro-batch
  * stays pending.
  */
private[keystate] final class CheckpointImport(
    session: SparkSession,
    source: QueryCheckpoint,
    target: Path
) {
  import CheckpointImport._

  private val conf = session.sessionState.newHadoopConf()
  private val draft = new CheckpointDraft(source, target, conf, KeystateErrors.importExists)
  private val offsets = QueryLogs.offsets(conf, source.root)

  /** Returns the last committed micro-batch. */
  def run(): Long = {
    val batch = source.batch(source.lastBatch)
    val entry = offsets.get(batch.number).getOrElse {
      throw KeystateErrors.noBatch(batch.number, source.location)
    }
    val provider = OffsetEntry.setting(entry, Provider).getOrElse("")
    if (!Importable.contains(provider))
      throw (
        if (provider == Settings.ProviderClass) KeystateErrors.importedAlready(source.location)
        else KeystateErrors.cannotImport(source.location, provider)
      )
    draft.write {
      draft.copyMetadata()
      draft.copy(logs("commits", batch.number) ++ draft.below("sources"))
      logs("offsets", batch.number).map(new Path(_).getName.toLong).foreach { number =>
        offsets.get(number).foreach { pinned =>
          QueryLogs
            .offsets(conf, draft.root)
            .replace(number, OffsetEntry.withSetting(pinned, Provider -> Settings.ProviderClass))
        }
      }
      val ids = copyState(batch, entry)
      if (batch.ids.nonEmpty) draft.copyCommit(session, batch.number)(_ => ids)
    }
    batch.number
  }

  /** The entries that Spark reads when it continues: the last committed micro-batch, the one before
    * it, and a pending one.
    */
  private def logs(log: String, last: Long): Seq[String] =
    (last - 1 to last + 1).map(number => s"$log/$number")

  /** Returns the ids of the new versions by operator, partition and store. */
  private def copyState(
      batch: CommittedBatch,
      entry: LogEntries.Offsets
  ): Map[Long, Array[Array[String]]] = {
    val settings = session.sessionState.conf.clone()
    SparkFiles.reading(new Path(source.root, s"offsets/${batch.number}")) {
      OffsetSeqMetadata.setSessionConf(LogEntries.metadata(entry).get, settings)
    }
    settings.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, if (batch.ids.isEmpty) 1 else 2)
    // The commit coordinator knows only micro-batches that a query runs.
    settings.setConf(SQLConf.STATE_STORE_COMMIT_VALIDATION_ENABLED, false)
    val from =
      SparkStoreCopy.Place(new Path(source.root, "state").toString, StateStoreConf(settings))
    val ours = settings.clone()
    ours.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, Settings.ProviderClass)
    val to = SparkStoreCopy.Place(new Path(draft.root, "state").toString, StateStoreConf(ours))
    val storeConf = new Configuration(conf)
    storeConf.setInt(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key, batch.partitions)

    SparkStoreMetadata.all(conf, source.root, batch.number).map { case (operator, stores) =>
      val partitions = if (stores.forall(_.isUnpartitioned)) 1 else batch.partitions
      val old = batch.ids.get(operator)
      val ids = stores.zipWithIndex.map { case (store, i) =>
        val oldIds = (0 until partitions).map { p =>
          old.map { of =>
            of.lift(p).flatMap(ids => ids.lift(if (ids.size > 1) i else 0)).getOrElse {
              throw new DamagedFileException(
                new Path(source.root, s"commits/${batch.number}").toString,
                s"it has no id of operator $operator, partition $p, store ${store.name}"
              )
            }
          }
        }
        new SparkStoreCopy(session, store, from, to, batch.version).run(storeConf, oldIds)
      }
      operator -> ids.transpose.map(_.flatten.toArray).toArray
    }
  }
}

private[keystate] object CheckpointImport {
  private val Provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key

  private val Importable: Set[String] =
    Set(classOf[RocksDBStateStoreProvider].getName, classOf[HDFSBackedStateStoreProvider].getName)
}
