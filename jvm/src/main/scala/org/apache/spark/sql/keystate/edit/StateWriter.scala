package org.apache.spark.sql.keystate.edit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}
import org.apache.spark.util.{SerializableConfiguration, Utils}

import keystate.backend.{Change, StateFamily}
import keystate.checkpoint.{PartitionState, Repartitioning, StoreReader}
import keystate.config.Settings
import keystate.files.{LocalFolder, StoreLocation}
import keystate.keygroup.KeyGroups
import keystate.version.Manifest
import org.apache.spark.sql.keystate.files.{SparkCheckpointStorage, TaskFolder}
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec}

/** The rows of a state.
  *
  * @param name
  *   the name of the state, or of a family of timers
  * @param state
  *   None: timers
  * @param rows
  *   the key, a struct, and [[StateEncoder.columns]]; for broadcast state without the key
  */
private[keystate] final case class StateRowsOf(
    name: String,
    state: Option[StateSpec],
    rows: DataFrame
)

/** States that are taken over as they are stored.
  *
  * @param folder
  *   the operator's
  * @param operator
  *   its number there
  * @param ids
  *   what follows the version in the names of the partitions' version files
  * @param states
  *   the stored states by their new names
  * @param families
  *   all that the operator has there
  */
private[keystate] final case class KeptStates(
    folder: Path,
    operator: Long,
    version: Long,
    ids: Seq[Option[String]],
    states: Map[String, StateFamily],
    families: Seq[StateFamily]
)

/** An entry that a subtask has for itself, in the operator group.
  *
  * @param family
  *   its name
  */
private[keystate] final case class SubtaskEntry(
    partition: Int,
    family: String,
    key: Array[Byte],
    value: Array[Byte]
)

/** Writes the state of a whole operator from DataFrames, in parallel: entries are shuffled to the
  * partitions that own their key groups, sorted there, which spills to disk, and streamed into a
  * run file. So no task holds a partition's state.
  *
  * @param folder
  *   the operator's folder, in the new checkpoint
  * @param empty
  *   the manifests of all partitions without entries
  * @param version
  *   the version that is written
  */
private[keystate] final class StateWriter(
    session: SparkSession,
    folder: Path,
    operator: Long,
    empty: Seq[Manifest],
    version: Long,
    keySchema: StructType
) {
  import StateWriter._

  private val conf = session.sessionState.newHadoopConf()
  private val families = empty.head.families
  private val asSst = session.conf.get(Settings.Backend.key, "") == "rocksdb"
  require(empty.forall(_.families == families), "the partitions have other states")

  /** @param kept
    *   None if nothing is taken over
    */
  def write(
      states: Seq[StateRowsOf],
      kept: Option[KeptStates],
      subtasks: Seq[SubtaskEntry]
  ): Unit = {
    val written = JobErrors.unwrapped(runs(states, kept, subtasks))
    val local = new LocalFolder(() => Utils.createTempDir(namePrefix = "keystate-write"))
    try {
      val stores = target(folder.toString, operator, version, conf, local, asSst)
      empty.foreach { manifest =>
        val state = written.getOrElse(manifest.partitioning.partition, PartitionState.Empty)
        stores.writeVersion(manifest, state)
      }
    } finally local.close()
  }

  private def runs(
      states: Seq[StateRowsOf],
      kept: Option[KeptStates],
      subtasks: Seq[SubtaskEntry]
  ): Map[Int, PartitionState] = {
    // Copied to local values, so that a task does not take this object along.
    val (root, id, at, known, key) = (folder.toString, operator, version, families, keySchema)
    val sst = asSst
    val groups = empty.head.partitioning.maxParallelism
    val lists = states.flatMap(_.state).filter(_.kind == StateKind.List)
    val single = lists.map(spec => familyOf(spec.name).id -> spec).toMap
    val shared = SerializableConfiguration.broadcast(session.sparkContext, conf)
    session
      .internalCreateDataFrame(
        session.sparkContext.union(
          states.map(entries) ++ kept.map(stored(_, shared)) :+ subtaskEntries(subtasks)
        ),
        Entries
      )
      .repartition(empty.size, col("partition"))
      .sortWithinPartitions("key")
      .queryExecution
      .toRdd
      .mapPartitions { rows =>
        val partition = TaskContext.getPartitionId()
        val sorted = rows.map(row => Repartitioning.entry(row.getBinary(1), row.getBinary(2)))
        target(root, id, at, shared.value.value, taskFolder(), sst)
          .writeRun(
            partition,
            new SortedEntries(sorted, single, known, new StoredEntryKeys(key, groups))
          )
          .map(partition -> _)
          .iterator
      }
      .collect()
      .toMap
  }

  /** The entries of a state, each with the label of its partition. */
  private def entries(of: StateRowsOf): RDD[InternalRow] = {
    val (state, to, key) = (of.state, familyOf(of.name), keySchema)
    val (groups, partitions) = (empty.head.partitioning.maxParallelism, empty.size)
    val rows = of.rows.asInstanceOf[ClassicDataset[_]].queryExecution.toRdd
    if (state.exists(_.isBroadcast))
      rows.mapPartitions { rows =>
        val encoder = new BroadcastEncoder(state.get, to.id, groups)
        rows.map(encoder(_)).flatMap(entry => (0 until partitions).map(placed(entry, _)))
      }
    else
      rows.mapPartitions { rows =>
        val encoder = new StateEncoder(state, to, key, groups)
        rows.map(row => routed(encoder(row), partitions, groups))
      }
  }

  private def subtaskEntries(entries: Seq[SubtaskEntry]): RDD[InternalRow] = {
    val group = KeyGroups.operatorGroup(empty.head.partitioning.maxParallelism)
    val rows = entries.map { entry =>
      placed(Change(familyOf(entry.family).id, group, entry.key, entry.value), entry.partition)
    }
    session.sparkContext.parallelize(rows, 1)
  }

  /** The entries of states that are kept, likewise. */
  private def stored(
      kept: KeptStates,
      shared: Broadcast[SerializableConfiguration]
  ): RDD[InternalRow] = {
    val (folder, id, version, key) = (kept.folder.toString, kept.operator, kept.version, keySchema)
    val (groups, partitions, before) =
      (empty.head.partitioning.maxParallelism, empty.size, kept.ids.size)
    val renumbered = kept.states.map { case (name, old) => old.name -> familyOf(name).id }
    session.sparkContext.parallelize(kept.ids.zipWithIndex, before).flatMap {
      case (name, partition) =>
        val reader = new StoreReader(
          StoreLocation(id, partition, StoreLocation.DefaultStore),
          new SparkCheckpointStorage(new Path(folder), shared.value.value),
          taskFolder()
        )
        val manifest = reader.manifest(version, name, before)
        val keys = new StoredEntryKeys(key, groups)
        for {
          family <- manifest.families.iterator
          to <- renumbered.get(family.name).iterator
          row <- family.properties.get("kind") match {
            case Some("broadcast") =>
              reader.subtaskEntries(manifest, family).map { entry =>
                val group = KeyGroups.operatorGroup(groups)
                placed(Change(to, group, entry.key, entry.value), partition)
              }
            case Some("raw_keyed") => // its key groups do not change
              reader.entries(manifest, family).map { entry =>
                routed(Change(to, entry.group, entry.key, entry.value), partitions, groups)
              }
            case _ =>
              reader.entries(manifest, family).map { entry =>
                val group = keys.groupOf(family, entry.key)
                routed(Change(to, group, entry.key, entry.value), partitions, groups)
              }
          }
        } yield row
    }
  }

  private def familyOf(name: String): StateFamily = families.find(_.name == name).get
}

private object StateWriter {
  private val Entries = new StructType()
    .add("partition", IntegerType)
    .add("key", BinaryType)
    .add("value", BinaryType)

  /** An entry with the label of the partition that owns its group. */
  private def routed(entry: Change, partitions: Int, maxParallelism: Int): InternalRow =
    placed(entry, KeyGroups.subtaskOf(entry.group, partitions, maxParallelism))

  /** An entry with the label of a partition. */
  private def placed(entry: Change, partition: Int): InternalRow = new GenericInternalRow(
    Array[Any](KeyGroups.label(partition), Repartitioning.runKey(entry), entry.value)
  )

  private def taskFolder(): LocalFolder = TaskFolder("keystate-write")

  private def target(
      root: String,
      operator: Long,
      version: Long,
      conf: Configuration,
      local: LocalFolder,
      asSst: Boolean
  ): Repartitioning = new Repartitioning(
    new SparkCheckpointStorage(new Path(root), conf),
    operator,
    StoreLocation.DefaultStore,
    version,
    local,
    asSst
  )
}
