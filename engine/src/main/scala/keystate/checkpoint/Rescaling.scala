package keystate.checkpoint

import keystate.backend.StateFamily
import keystate.errors.{
  IncompatiblePartitionsException, MissingVersionException, MixedPartitionsException
}
import keystate.files.{CheckpointStorage, Concurrently, LocalFolder, StoreLocation}
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import keystate.version.{EntryCounts, Manifest, Partitioning, VersionFile, VersionFinder}

/** Changes the number of partitions of a committed version: the same state over another number of
  * partitions.
  *
  * No keyed state is rewritten. Each new partition gets a version file. It lists the runs of the
  * old partitions whose key groups the new partition takes over, each run narrowed to the groups of
  * its old partition. So runs of different partitions never have a key in common, and their order
  * does not matter. New partition i takes the operator group of old partition i mod n, and with it
  * a copy of its broadcast state. Only operator state is read and split again, see
  * [[OperatorState]].
  *
  * The old version files stay unchanged. With checkpoint format v2 the new files have new ids. With
  * v1 they are named `<version>_of<parallelism>.keystate`, and so are all later ones, so that a
  * late attempt in the old partitioning can't replace one of them. Until the query's logs name the
  * new partitioning, a restart finds the old one; writing the new files again gives the same
  * result.
  */
object Rescaling {

  /** Writes the new version files; returns their ids, by partition.
    *
    * @param ids
    *   the ids of the old partitions' version files, one for each old partition; each None with
    *   checkpoint format v1
    * @param parallelism
    *   the new number of partitions
    * @param newId
    *   makes the id of a new version file; not called with format v1
    * @param local
    *   for the run files that operator state is read from
    * @throws keystate.errors.MixedPartitionsException
    *   the old partitions do not have one common partitioning
    * @throws keystate.errors.IncompatiblePartitionsException
    *   one state id stands for different states in them
    */
  def run(
      storage: CheckpointStorage,
      operator: Long,
      store: String,
      version: Long,
      ids: Seq[Option[String]],
      parallelism: Int,
      newId: () => String,
      local: LocalFolder
  ): Seq[Option[String]] = {
    val old = Concurrently
      .map(ids.zipWithIndex) { case (id, partition) =>
        val location = StoreLocation(operator, partition, store)
        VersionFinder.readOf(storage, location, version, id, ids.size)
      }
      .toVector
    val maxParallelism = old.head.partitioning.maxParallelism
    old.foreach(manifest => checkGroups(manifest, operator, store, ids.size, maxParallelism))
    val families = commonFamilies(operator, store, old)
    val operatorStates = new OperatorStates(storage, local)
    val subtaskStates = OperatorState.redistribute(
      Concurrently
        .map(old.zipWithIndex) { case (manifest, partition) =>
          operatorStates.read(StoreLocation(operator, partition, store), manifest)
        }
        .flatten,
      parallelism
    )
    val common = old.head.copy(
      baseId = None,
      nextFamilyId = old.map(_.nextFamilyId).max,
      families = families,
      mergedAt = None,
      entryBytes = old.flatMap(_.entryBytes).maxOption
    )
    def partitioning(partition: Int) =
      Partitioning(maxParallelism, Some(parallelism), partition).copy(rescaledAt = Some(version))
    Concurrently.map(0 until parallelism) { partition =>
      val id = ids.head.map(_ => newId())
      val location = StoreLocation(operator, partition, store)
      val manifest = operatorStates.replace(
        manifestOf(partitioning(partition), old, common).copy(id = id),
        subtaskStates(partition)
      )
      // With v1 a task that runs a pending batch again gives its file the same name.
      if (id.isEmpty) VersionFile.replace(storage, location, manifest)
      else VersionFile.write(storage, location, manifest): Unit
      id
    }
  }

  /** Writes version 0 for a new number of partitions. Version 0 is empty, and normally has no file:
    * this one is for a query without a commit whose first batch was started with another number.
    * With checkpoint format v1 the first versions then have the new number in their names, see
    * [[VersionedStore]]. Otherwise a late attempt in the old partitioning would replace one of
    * them.
    */
  def runEmpty(
      storage: CheckpointStorage,
      operator: Long,
      store: String,
      maxParallelism: Int,
      parallelism: Int
  ): Unit = {
    Concurrently.map(0 until parallelism) { partition =>
      val own = Partitioning(maxParallelism, Some(parallelism), partition)
      VersionFile.write(
        storage,
        StoreLocation(operator, partition, store),
        Manifest.empty(0, own.copy(rescaledAt = Some(Partitioning.AtStart)))
      )
    }
    ()
  }

  /** The manifest of a new partition, without operator state; `common` has the fields that all new
    * manifests share.
    */
  private def manifestOf(
      partitioning: Partitioning,
      old: IndexedSeq[Manifest],
      common: Manifest
  ): Manifest = {
    import partitioning.{groups, partition}
    val runs = for {
      manifest <- donors(old, partition, groups)
      taken = takenFrom(manifest, partition, old.size, groups)
      run <- manifest.runs
      part <- taken.filter(run.groups.intersects)
    } yield run.copy(groups = run.groups.intersection(part))
    common.copy(
      partitioning = partitioning,
      entryCounts = common.families.map { family =>
        family.id -> entryCounts(old, family.id, partition, groups)
      }.toMap,
      runs = runs
    )
  }

  /** Fails where a partition does not have the key groups that are its own among so many. */
  private def checkGroups(
      manifest: Manifest,
      operator: Long,
      store: String,
      partitions: Int,
      maxParallelism: Int
  ): Unit = {
    val found = manifest.partitioning
    val owned = KeyGroups.rangeOf(found.partition, partitions, maxParallelism)
    if (found.maxParallelism != maxParallelism || found.groups != owned)
      throw new MixedPartitionsException(
        StoreLocation(operator, found.partition, store),
        manifest.version,
        s"it has key groups ${found.groups.first} to ${found.groups.last} of " +
          s"${found.maxParallelism}, and not ${owned.first} to ${owned.last} of $maxParallelism"
      )
  }

  /** The old partitions that a new one takes anything from, in their order. There are few, so that
    * many partitions do not take time by their number squared.
    */
  private def donors(
      old: IndexedSeq[Manifest],
      partition: Int,
      groups: KeyGroupRange
  ): Seq[Manifest] = {
    val maxParallelism = old.head.partitioning.maxParallelism
    def owner(group: Int) = KeyGroups.subtaskOf(group, old.size, maxParallelism)
    val ofGroups = owner(groups.first) to owner(groups.last)
    (ofGroups :+ partition % old.size).distinct.sorted.map(old)
  }

  /** The number of a family's entries in a new partition. */
  private def entryCounts(
      old: IndexedSeq[Manifest],
      family: Int,
      partition: Int,
      groups: KeyGroupRange
  ): EntryCounts = {
    val maxParallelism = old.head.partitioning.maxParallelism
    val operatorGroup = old.head.partitioning.operatorGroup
    EntryCounts((groups.first to groups.last).map { group =>
      old(KeyGroups.subtaskOf(group, old.size, maxParallelism)).count(family, group)
    } :+ old(partition % old.size).count(family, operatorGroup))
  }

  /** The groups that a new partition takes from an old one: the key groups that are its own now
    * and, from one old partition, the operator group.
    */
  private def takenFrom(
      manifest: Manifest,
      partition: Int,
      oldParallelism: Int,
      groups: KeyGroupRange
  ): Seq[KeyGroupRange] = {
    val own = manifest.partitioning
    Option.when(own.groups.intersects(groups))(own.groups.intersection(groups)).toSeq ++
      Option.when(own.partition == partition % oldParallelism)(
        KeyGroupRange(own.operatorGroup, own.operatorGroup)
      )
  }

  /** Whether all partitions of this partitioning have the version, and from one rescale. For
    * checkpoint format v1.
    *
    * When the batch of a rescaled pending version runs again, the partitions replace their files
    * one after the other. While some are replaced and others not, the version is invalid, because
    * operator state is split differently in them. If a driver that had the batch before commits it
    * then, the version in the old partitioning counts.
    */
  def isComplete(
      storage: CheckpointStorage,
      operator: Long,
      store: String,
      version: Long,
      parallelism: Int
  ): Boolean = {
    def found(partition: Int): Option[Partitioning] =
      try {
        val location = StoreLocation(operator, partition, store)
        Some(VersionFinder.read(storage, location, version, None, Some(parallelism)).partitioning)
          .filter(_.partitions.contains(parallelism))
      } catch { case _: MissingVersionException => None }
    found(0).exists { first =>
      Concurrently
        .map(1 until parallelism)(found)
        .forall(_.exists(_.rescaledAt == first.rescaledAt))
    }
  }

  /** The numbers of partitions with which the first partition has this version. The version can be
    * complete only in these partitionings. For checkpoint format v1.
    */
  def partitionCounts(
      storage: CheckpointStorage,
      operator: Long,
      store: String,
      version: Long
  ): Seq[Int] = {
    val location = StoreLocation(operator, 0, store)
    val names = storage.list(location.folder).map(_.name).flatMap(VersionFile.parse)
    names
      .collect { case (`version`, name) => name }
      .flatMap {
        case Some(VersionFile.PartitionsName(parallelism)) => parallelism.toIntOption
        case Some(_) => None // of checkpoint format v2
        case None => VersionFile.read(storage, location, version, None).partitioning.partitions
      }
      .distinct
  }

  /** The families of all partitions together, by id. Throws IncompatiblePartitionsException if two
    * partitions have different families with one id; the families' properties may differ.
    */
  private[checkpoint] def commonFamilies(
      operator: Long,
      store: String,
      manifests: Seq[Manifest]
  ): Seq[StateFamily] = {
    val families = manifests.flatMap(_.families).map(family => family.id -> family).distinct.toMap
    val clash = manifests
      .flatMap(_.families)
      .find { family =>
        val other = families(family.id)
        other.name != family.name || other.layout != family.layout
      }
    clash.foreach(family =>
      throw new IncompatiblePartitionsException(operator, store, families(family.id), family)
    )
    families.values.toSeq.sortBy(_.id)
  }
}
