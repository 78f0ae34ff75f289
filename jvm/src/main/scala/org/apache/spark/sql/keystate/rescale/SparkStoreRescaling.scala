package org.apache.spark.sql.keystate.rescale

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}
import org.apache.spark.util.{SerializableConfiguration, Utils}
import org.apache.spark.{SparkEnv, TaskContext}

import keystate.backend.StateFamily
import keystate.checkpoint.{PartitionState, Repartitioning}
import keystate.config.Settings
import keystate.errors.KeystateErrors
import keystate.files.{Concurrently, LocalFolder}
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage
import org.apache.spark.sql.keystate.metadata.SparkStoreMetadata

/** Rescales a store of one of Spark's own stateful operators. Spark sends a row to partition
  * `pmod(hash, n)`, so a partition's keys are no contiguous range of key groups. Unless the new
  * number divides the old one, a Spark job reads the entries of the old partitions, shuffles them
  * as Spark shuffles rows, and writes one run for each new partition.
  */
private[keystate] final class SparkStoreRescaling(
    session: SparkSession,
    state: Path,
    store: SparkStoreMetadata,
    encoding: String
) {
  import SparkStoreRescaling._

  private val conf = session.sessionState.newHadoopConf()

  /** Writes the version files for the new number of partitions; see
    * `keystate.checkpoint.Rescaling`.
    *
    * @param ids
    *   the ids of the old partitions' version files, one for each old partition; None with
    *   checkpoint format v1
    */
  def run(version: Long, ids: Seq[Option[String]], partitions: Int): Seq[Option[String]] =
    withStore(state, store, version, conf) { target =>
      val old = Concurrently.map(ids.zipWithIndex) { case (id, partition) =>
        target.manifest(partition, id, ids.size)
      }
      val states = target.regrouped(old, partitions).getOrElse {
        val rewritten = rewrite(version, ids, partitions)
        (0 until partitions).map(rewritten.getOrElse(_, PartitionState.Empty))
      }
      val newId = ids.head.map(_ => () => UUID.randomUUID.toString)
      target.writeVersions(old, states, newId)
    }

  private def rewrite(
      version: Long,
      ids: Seq[Option[String]],
      partitions: Int
  ): Map[Int, PartitionState] = {
    // Copied to local values, so that a task does not take this object along.
    val (root, of, format, before) = (state.toString, store, encoding, ids.size)
    val shared = SerializableConfiguration.broadcast(session.sparkContext, conf)
    val entries =
      session.sparkContext.parallelize(ids.zipWithIndex, before).flatMap { case (id, partition) =>
        val local = taskFolder()
        val source = repartitioning(root, of, version, shared.value.value, local)
        val owners = new Owners(of, format, partitions)
        source
          .entries(source.manifest(partition, id, before))
          .map { case (family, change) =>
            val label = KeyGroups.label(owners.of(family, change.key))
            new GenericInternalRow(
              Array[Any](label, Repartitioning.runKey(change), change.value)
            ): InternalRow
          }
      }
    session
      .internalCreateDataFrame(entries, Entries)
      .repartition(partitions, col("partition"))
      .sortWithinPartitions("key")
      .queryExecution
      .toRdd
      .mapPartitions { rows =>
        val partition = TaskContext.getPartitionId()
        val target = repartitioning(root, of, version, shared.value.value, taskFolder())
        target
          .writeRun(
            partition,
            rows.map(row => Repartitioning.entry(row.getBinary(1), row.getBinary(2)))
          )
          .map(partition -> _)
          .iterator
      }
      .collect()
      .toMap
  }
}

private[keystate] object SparkStoreRescaling {
  private val Entries = new StructType()
    .add("partition", IntegerType)
    .add("key", BinaryType)
    .add("value", BinaryType)

  /** Finds the new partition of an entry. */
  private final class Owners(store: SparkStoreMetadata, encoding: String, partitions: Int) {
    private val partitionsOf = mutable.LongMap.empty[Array[Byte] => Int]

    def of(stored: StateFamily, key: Array[Byte]): Int =
      partitionsOf.getOrElseUpdate(stored.id.toLong, partitionOf(stored))(key)

    private def partitionOf(stored: StateFamily): Array[Byte] => Int = {
      val family = store.families
        .find(family => family.name == stored.name && store.hasEntries(family))
        .getOrElse(throw KeystateErrors.unknownFamily(store.toString, stored.name))
      val decode = store.keyDecoder(family, encoding)
      val hash = store.shuffleHash(family)
      key => Math.floorMod(hash(decode(key)), partitions)
    }
  }

  private def repartitioning(
      root: String,
      store: SparkStoreMetadata,
      version: Long,
      conf: Configuration,
      local: LocalFolder
  ) = new Repartitioning(
    new SparkCheckpointStorage(new Path(root, store.operator.toString), conf),
    store.operator,
    store.name,
    version,
    local,
    asSst = conf.get(Settings.Backend.key) == "rocksdb"
  )

  private def withStore[T](
      state: Path,
      store: SparkStoreMetadata,
      version: Long,
      conf: Configuration
  )(body: Repartitioning => T): T = {
    val local = new LocalFolder(() => Utils.createTempDir(namePrefix = "keystate-rescale"))
    try body(repartitioning(state.toString, store, version, conf, local))
    finally local.close()
  }

  /** A folder for scratch files, deleted when the task ends. */
  private def taskFolder(): LocalFolder = {
    val folder =
      new LocalFolder(() => Utils.createExecutorLocalTempDir(SparkEnv.get.conf, "keystate-rescale"))
    TaskContext.get().addTaskCompletionListener[Unit](_ => folder.close())
    folder
  }
}
