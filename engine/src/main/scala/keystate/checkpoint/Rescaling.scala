package keystate.checkpoint

import keystate.backend.StateFamily
import keystate.errors.{
  IncompatiblePartitionsException, MissingVersionException, MixedPartitionsException
}
import keystate.files.{CheckpointStorage, Concurrently, LocalFolder, StoreLocation}
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import keystate.version.{EntryCounts, Manifest, Partitioning, VersionFile, VersionFinder}

/** Gives a committed version of a store another partitioning: the same state over another number of
  * partitions.
  *
  * No keyed state is rewritten. Each new partition gets a version file that lists the runs of the
  * old partitions whose key groups it takes over, each run narrowed to the groups of the partition
  * it comes from. So runs of different partitions never speak of the same key, and their order does
  * not matter. New partition i takes the operator group of old partition i mod n, and with it a
  * copy of its broadcast state. Only operator state is read and dealt out anew, see
  * [[OperatorState]].
  *
  * The old version files stay as they are. With checkpoint format v2 the new ones have ids of their
  * own. With v1 they are named `<version>_of<parallelism>.keystate`, and so are all later ones,
  * lest a late attempt in the old partitioning replaces one of them. Until the query's logs name the new
  * partitioning, the old one is what a restart finds; writing the new files again gives the same.
  */
object Rescaling {

  /** Writes the new version files; returns their ids, by partition.
    *
    * @param ids
    *   the ids of the old partitions' version files, as many as there are old partitions; each None
    *   with checkpoint format v1
    * @param parallelism
    *   the new number of partitions
    * @param newId
    *   gives the id of a new version file; not called with format v1
    * @param local
    *   for the run files that operator state is read from
    * @throws keystate.errors.MixedPartitionsException
    *   the old partitions are not of one partitioning
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
      // With v1 a task that runs a pending batch again gives its file this name too.
      if (id.isEmpty) VersionFile.replace(storage, location, manifest)
      else VersionFile.write(storage, location, manifest): Unit
      id
    }
  }

  /** Writes version 0 for a new number of partitions. It is empty, and has no file as a rule: this is
    * for a query of which nothing is committed, and whose first batch was begun with another number.
    * With checkpoint format v1 the first versions then have the new number in their names, see
    * [[VersionedStore]]. Else a late attempt in the old partitioning would replace one of them.
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

  /** The manifest of a new partition; `common` has what all new ones have. Operator state is not in
    * it yet.
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

  /** How many entries of a family a new partition has. */
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

  /** Whether all partitions of a partitioning of so many have this version, and from one rescale. For
    * checkpoint format v1.
    *
    * A pending version that was rescaled is replaced, one partition after the other, when its batch
    * runs again. Between the two it is no version, for operator state is dealt out differently in
    * them. If the batch is committed then, by a driver that had it before, the version in the old
    * partitioning counts.
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

  /** The partitionings in which the first partition has this version, as their numbers of partitions.
    * Only in these can the version be complete. For checkpoint format v1.
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

  /** The families of all partitions together, by id. Throws IncompatiblePartitionsException where
    * two partitions have different ones with one id; their properties may differ.
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
