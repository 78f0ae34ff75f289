package keystate.checkpoint

import java.util.Arrays

import scala.collection.mutable

import keystate.backend.{Change, ChangeSink, RunFormat, StateFamily}
import keystate.files.{CheckpointStorage, Concurrently, LocalFolder, StoreLocation}
import keystate.version.{EntryCounts, Manifest, Run, VersionFile, VersionFinder}

/** Changes the number of partitions of a committed version when keys go to partitions by hash
  * modulo that number, and not by key group: for the stores of Spark's own operators.
  *
  * If the new number divides the old one, whole partitions are combined: a new partition lists the
  * runs of its old ones. These runs never have a key in common, so their order does not matter.
  * Otherwise the state is rewritten. The steps are separate because tasks do the first two:
  * `entries` of every old partition, `writeRun` for every new one, and at the end `writeVersions`.
  * As with [[Rescaling]] the old files stay, and the query's logs are the first to name the new
  * ones.
  *
  * @param local
  *   for run files that are read or written
  * @param asSst
  *   whether the backend that will load the new files takes SST files over
  */
final class Repartitioning(
    storage: CheckpointStorage,
    operator: Long,
    store: String,
    version: Long,
    local: LocalFolder,
    asSst: Boolean
) {

  /** An old partition's version, which must have been written for this number of partitions.
    *
    * @throws keystate.errors.MixedPartitionsException
    *   it was written for another number
    */
  def manifest(partition: Int, id: Option[String], partitions: Int): Manifest =
    VersionFinder.readOf(storage, location(partition), version, id, partitions)

  /** All entries of an old partition, each with its family. */
  def entries(manifest: Manifest): Iterator[(StateFamily, Change)] = {
    val reader = new StoreReader(location(manifest.partitioning.partition), storage, local)
    manifest.families.iterator.flatMap { family =>
      reader.entries(manifest, family).map(family -> _)
    }
  }

  /** Writes the run file of a new partition; None when there is nothing to write.
    *
    * @param entries
    *   all of its entries, in the order of family, group and key
    */
  def writeRun(partition: Int, entries: Iterator[Change]): Option[PartitionState] =
    Option.when(entries.hasNext) {
      val counts = mutable.Map.empty[(Int, Int), Long].withDefaultValue(0)
      def writeCounted(sink: ChangeSink): Unit = entries.foreach { entry =>
        counts((entry.family, entry.group)) += 1
        sink.add(entry)
      }
      val writer = new RunWriter(location(partition), storage, local, asSst)
      val run = writer.write(writeCounted, version, None)
      PartitionState(Seq(run), counts.toMap)
    }

  /** The state of each new partition, if the state need not be rewritten; None if it must be.
    *
    * @param old
    *   the manifests of all old partitions
    */
  def regrouped(old: Seq[Manifest], partitions: Int): Option[Seq[PartitionState]] =
    Option.when(old.size % partitions == 0) {
      old.groupBy(_.partitioning.partition % partitions).toSeq.sortBy(_._1).map { case (_, own) =>
        val counts = for {
          manifest <- own
          family <- manifest.families
          group <- manifest.partitioning.ownGroups
        } yield (family.id, group) -> manifest.count(family.id, group)
        PartitionState(own.flatMap(_.runs), counts.groupMapReduce(_._1)(_._2)(_ + _))
      }
    }

  /** Writes the version files of the new partitions; returns their ids.
    *
    * @param old
    *   the manifests of all old partitions
    * @param states
    *   of all new partitions, in their order
    * @param newId
    *   gives the id of a new version file; None with checkpoint format v1
    */
  def writeVersions(
      old: Seq[Manifest],
      states: Seq[PartitionState],
      newId: Option[() => String]
  ): Seq[Option[String]] = {
    val families = Rescaling.commonFamilies(operator, store, old)
    val common = old.head.copy(
      baseId = None,
      nextFamilyId = old.map(_.nextFamilyId).max,
      families = families,
      mergedAt = None,
      entryBytes = old.flatMap(_.entryBytes).maxOption
    )
    val partitioning = old.head.partitioning
      .copy(hashPartitions = Some(states.size), rescaledAt = Some(version))
    Concurrently.map(states.zipWithIndex) { case (state, partition) =>
      val id = newId.map(_())
      val own = partitioning.copy(partition = partition)
      writeVersion(common.copy(id = id, partitioning = own), state)
      id
    }
  }

  /** Writes the version file of a partition that starts with this state.
    *
    * @param empty
    *   the manifest for a partition without entries
    */
  def writeVersion(empty: Manifest, state: PartitionState): Unit = {
    val counts = empty.families.map { family =>
      def count(group: Int) = state.counts.getOrElse((family.id, group), 0L)
      family.id -> EntryCounts(empty.partitioning.ownGroups.map(count))
    }.toMap
    val written = empty.copy(version = version, entryCounts = counts, runs = state.runs)
    VersionFile.write(storage, location(empty.partitioning.partition), written): Unit
  }

  private def location(partition: Int) = StoreLocation(operator, partition, store)
}

/** All that a new partition has.
  *
  * @param counts
  *   how many entries, by family and group
  */
final case class PartitionState(runs: Seq[Run], counts: Map[(Int, Int), Long])

object PartitionState {

  /** The state of a partition without entries. */
  val Empty: PartitionState = PartitionState(Nil, Map.empty)
}

object Repartitioning {

  /** The entry's key as a run stores it. Sorted by the bytes of these, entries are in the order
    * that a run needs.
    */
  def runKey(entry: Change): Array[Byte] = {
    val prefix = RunFormat.prefix(entry.family, entry.group)
    val key = Arrays.copyOf(prefix, prefix.length + entry.key.length)
    System.arraycopy(entry.key, 0, key, prefix.length, entry.key.length)
    key
  }

  /** The entry of such a key. */
  def entry(runKey: Array[Byte], value: Array[Byte]): Change = Change(
    RunFormat.familyOf(runKey),
    RunFormat.groupOf(runKey),
    Arrays.copyOfRange(runKey, RunFormat.PrefixLength, runKey.length),
    value
  )
}
