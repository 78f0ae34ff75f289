package keystate.checkpoint

import java.util.Arrays

import scala.collection.mutable

import keystate.backend.{Change, StateFamily}

/** Gives a committed version of a store another layout where the hash of a key decides its partition,
  * and not the key group: the state is rewritten.
  *
  * The steps are apart because tasks do the first two: `entries` of every old partition, `writeRun`
  * for every new one, and at the end `writeVersions`. As with [[Rescaling]] the old files stay, and
  * nothing names the new ones before the query's logs do.
  *
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

  def manifest(partition: Int, id: Option[String], partitions: Int): Manifest =
    Rescaling.read(storage, location(partition), version, id, Some(partitions))

  /** All entries of a partition. */
  def entries(manifest: Manifest): Iterator[(StateFamily, Change)] = {
    val reader = new StoreReader(location(manifest.partition), storage, local)
    manifest.families.iterator.flatMap { family =>
      reader.entries(manifest, family).map(family -> _)
    }
  }

  /** @param entries
    *   in the order of family, group and key
    */
  def writeRun(partition: Int, entries: Iterator[Change]): Option[RewrittenState] =
    Option.when(entries.hasNext) {
      val counts = mutable.Map.empty[(Int, Int), Long].withDefaultValue(0)
      val counted = entries.map { entry =>
        counts((entry.family, entry.group)) += 1
        entry
      }
      val files = new RunFiles(location(partition), storage, local)
      files.asSst = asSst
      RewrittenState(files.write(counted, version, None), counts.toMap)
    }

  /** @param old
    *   of all old partitions
    * @param states
    *   of all new partitions
    * @param newId
    *   gives the id of a new version file; not called with checkpoint format v1
    */
  def writeVersions(
      old: Seq[Manifest],
      states: Seq[Option[RewrittenState]],
      newId: Option[() => String]
  ): Seq[Option[String]] = {
    val families = Rescaling.commonFamilies(operator, store, old)
    states.zipWithIndex.map { case (state, partition) =>
      val id = newId.map(_())
      VersionFile.write(
        storage,
        location(partition),
        old.head.copy(
          id = id,
          baseId = None,
          hashPartitions = Some(states.size),
          partition = partition,
          rescaledAt = Some(version),
          numKeys = state.fold(0L)(_.run.entries),
          nextFamilyId = old.map(_.nextFamilyId).max,
          families = families,
          entryCounts = families.map { family =>
            def count(group: Int) = state.flatMap(_.counts.get((family.id, group))).getOrElse(0L)
            family.id -> EntryCounts.of(old.head.ownGroups.map(count))
          }.toMap,
          runs = state.map(_.run).toSeq
        )
      )
      id
    }
  }

  private def location(partition: Int) = StoreLocation(operator, partition, store)
}

/** All that a new partition has.
  *
  * @param counts
  *   how many entries, by family and group
  */
final case class RewrittenState(run: Run, counts: Map[(Int, Int), Long])

object Repartitioning {

  /** The entry's key as a run has it: in bytewise order it is in the order that a run needs. */
  def runKey(entry: Change): Array[Byte] = {
    val prefix = RunFormat.prefix(entry.family, entry.group)
    val key = Arrays.copyOf(prefix, prefix.length + entry.key.length)
    System.arraycopy(entry.key, 0, key, prefix.length, entry.key.length)
    key
  }

  def entry(runKey: Array[Byte], value: Array[Byte]): Change = Change(
    RunFormat.familyOf(runKey),
    RunFormat.groupOf(runKey),
    Arrays.copyOfRange(runKey, RunFormat.PrefixLength, runKey.length),
    value
  )
}
