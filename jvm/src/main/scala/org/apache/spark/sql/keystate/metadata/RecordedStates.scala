package org.apache.spark.sql.keystate.metadata

import java.io.File
import java.nio.file.Files

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.internal.SQLConf

import keystate.backend.StateFamily
import keystate.checkpoint.StoreReader
import keystate.config.Settings
import keystate.files.{LocalFolder, StoreLocation}
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage
import org.apache.spark.sql.keystate.spec.{OperatorSpec, StateSpec, SystemColumnFamilies}
import org.apache.spark.sql.keystate.store.{KeystateCodec, StoreConfig}

/** The states in the version that a micro-batch begins with. */
private[keystate] object RecordedStates {

  /** The states of the operator's first partition; all partitions have the same ones.
    *
    * @param id
    *   of the partition's version file; None with checkpoint format v1
    */
  def read(
      info: StatefulOperatorStateInfo,
      id: Option[String],
      hadoopConf: Configuration
  ): Seq[StateFamily] =
    if (info.storeVersion == 0) Nil
    else {
      val folder = new Path(info.checkpointLocation, info.operatorId.toString)
      val location = StoreLocation(info.operatorId, 0, StoreLocation.DefaultStore)
      val storage = new SparkCheckpointStorage(folder, hadoopConf)
      val scratch = new LocalFolder(() => Files.createTempDirectory("keystate").toFile: File)
      Using.resource(scratch) { local =>
        val reader = new StoreReader(location, storage, local)
        reader.manifest(info.storeVersion, id, info.numPartitions).families
      }
    }

  /** Whether a family's entries are by key: a state of a key, or timers. */
  def isByKey(family: StateFamily): Boolean =
    KeystateCodec.owns(family) || SystemColumnFamilies.isTimers(family)

  /** The states that the function had in an earlier run and no longer declares. */
  def removed(recorded: Iterable[StateFamily], spec: OperatorSpec): Seq[StateFamily] = {
    val declared = (spec.states ++ spec.broadcast).map(_.name).toSet
    recorded.filter(StateSpec.isOne).filterNot(family => declared(family.name)).toSeq
  }

  def purges(conf: SQLConf): Boolean = Settings.RemovedStates.of(StoreConfig.in(conf)) == "purge"
}
