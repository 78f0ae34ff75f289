package keystate.checkpoint

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.slf4j.LoggerFactory

import keystate.backend.{
  AdaptiveBackendFactory, Change, HandsOver, KeyedStateBackend, Layout, RestoresFromFiles,
  StateBackendFactory, StateFamily
}
import keystate.errors.{
  KeyGroupsMismatchException, MaxParallelismMismatchException, MissingVersionException,
  MixedPartitionsException
}
import keystate.files.{
  CheckpointStorage, Concurrently, CountedStorage, LocalFolder, RequestCounts, StoreLocation
}
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import keystate.localrecovery.LocalRecovery
import keystate.version.{
  EntryCounts, FileSource, InlineSource, Manifest, Partitioning, Run, VersionFile, VersionFinder
}

/** One store. It loads a version into a backend, and commits the backend's changes as the next
  * version.
  *
  * A commit first writes the changes as one run: in its own file or, if the run is small, inline in
  * the version file. Then it writes the version file, which makes the version exist (see
  * [[VersionFile]]). Committed files never change. So if a commit fails at any point, all versions
  * stay as they were, and the clean-up finds the commit's files. After a failed commit nothing is
  * loaded, and the next load reads the files.
  *
  * A version file carries all inline runs, so it needs no other version file. When they grow above
  * `StoreSettings.inlineBytes`, the older ones become a run file.
  *
  * The factory may want another kind of backend for the store (see [[AdaptiveBackendFactory]]).
  * Then `load` or `moveIfDue` loads the version into a backend of that kind, when no transaction is
  * open.
  *
  * One thread at a time, except for `maintain` and `cancelMaintenance`.
  */
final class VersionedStore(
    location: StoreLocation,
    checkpoint: CheckpointStorage,
    settings: StoreSettings,
    backends: StateBackendFactory,
    local: LocalFolder,
    localRecovery: LocalRecovery = LocalRecovery.None
) extends AutoCloseable {
  import VersionLoader.Recovered
  import VersionedStore._

  private val storage = new CountedStorage(checkpoint)

  /** The error for a missing version that was requested without an id. Checking whether the version
    * exists with an id takes a request, so this is for an error that ends a query.
    */
  def explained(missing: MissingVersionException): MissingVersionException =
    if (VersionFile.hasOnlyIds(storage, location, missing.version)) missing.inFormat(2) else missing

  /** @param later
    *   loads entries that the backend has not requested yet
    */
  private final class Loaded(
      val manifest: Manifest,
      val backend: KeyedStateBackend,
      val later: Option[OnDemandLoad]
  )

  private val mover: Option[AdaptiveBackendFactory] = backends match {
    case moves: AdaptiveBackendFactory => Some(moves)
    case _ => None
  }

  @volatile private var loaded: Loaded = _
  private val working = new WorkingFamilies(location)
  private var lastLoad = LoadStatistics(0, 0)
  private var lastCommit = CommitStatistics(0, 0, 0, RequestCounts.Zero)
  private var requestsTold = RequestCounts.Zero
  private var moveCount = 0L

  // Entries that were removed up to this version must disappear from all files.
  @volatile private var removedUntil = 0L

  // The writer for the newest backend. The maintenance thread reads it too.
  @volatile private var writer = newWriter(asSst = false)
  private val files = new RunFiles(location, storage, local)
  private val inlineRuns = new InlineRuns(files, settings.inlineBytes)
  private val loader = new VersionLoader(location, storage, files, settings, localRecovery)
  private val compaction = new RunCompaction(files)
  private val cleanUp = new CleanUp(location, storage, settings)

  def isLoaded: Boolean = loaded != null
  def manifest: Manifest = current.manifest
  def backend: KeyedStateBackend = current.backend
  def maxParallelism: Int = current.manifest.partitioning.maxParallelism
  def families: Iterable[StateFamily] = working.all
  def family(name: String): Option[StateFamily] = working.get(name)
  def loadStatistics: LoadStatistics = lastLoad
  def commitStatistics: CommitStatistics = lastCommit
  def compactions: Long = compaction.finished

  /** Whether the entries are in files on this machine, as with RocksDB. */
  def isOnDisk: Boolean = writer.asSst

  /** How often the store has moved to another kind of backend. */
  def moves: Long = moveCount

  /** Makes a version the working copy. If it is loaded already, it is not read again: changes that
    * were neither committed nor rolled back are undone. Else it is read from storage.
    */
  def load(version: Long, id: Option[String]): Unit = {
    val unchanged = loaded != null && loaded.manifest.version == version &&
      loaded.manifest.id == id && !loaded.later.exists(_.hasFailed)
    if (unchanged) {
      rollback()
      lastLoad = LoadStatistics(0, 0)
    } else if (version == 0) loadEmpty(0)
    else {
      unload()
      timed(open(VersionFinder.read(storage, location, version, id, settings.partitions)))
    }
    moveIfDue()
  }

  /** Moves the store into another kind of backend, if its factory wants that. No transaction may be
    * open. If this throws, nothing is loaded.
    */
  def moveIfDue(): Unit = if (isLoaded) mover.flatMap(_.beginMove()).foreach { reason =>
    tellOfMove(reason)
    val version = manifest
    unload()
    timed(open(version))
  }

  /** Throws if the loaded version was written for another number of hash partitions: this partition
    * would then get other keys than the version has. Unloads the store before it throws.
    */
  def checkHashPartitions(): Unit = for {
    expected <- settings.hashPartitions
    found <- manifest.partitioning.hashPartitions
    if found != expected
  } {
    val version = manifest.version
    unload()
    throw MixedPartitionsException.ofNumbers(location, version, found, expected)
  }

  /** The operator state of every subtask in the loaded version.
    *
    * @param ids
    *   the ids of the subtasks' version files; None with checkpoint format v1
    */
  def operatorStates(ids: Seq[Option[String]]): Seq[OperatorState] = {
    val states = new OperatorStates(storage, local)
    val own = manifest
    Concurrently
      .map(ids.zipWithIndex) { case (id, partition) =>
        val other = location.copy(partition = partition)
        val version =
          if (partition == location.partition) own
          else VersionFinder.read(storage, other, own.version, id, settings.partitions)
        states.read(other, version)
      }
      .flatten
  }

  /** Begins with no state. The next commit makes version `version` + 1. */
  def loadEmpty(version: Long): Unit = {
    unload()
    val maxParallelism = settings.maxParallelism.getOrElse(KeyGroups.DefaultMaxParallelism)
    KeyGroups.checkMaxParallelism(maxParallelism)
    val partitioning = Partitioning(maxParallelism, settings.parallelism, location.partition)
    open(Manifest.empty(version, partitioning))
    lastLoad = LoadStatistics(0, 0)
  }

  /** Finds or makes a family. Throws if it is there with another layout, kind or order. Takes
    * effect with the commit.
    */
  def registerFamily(name: String, layout: Layout, properties: Map[String, String]): StateFamily = {
    val family = working.register(name, layout, properties)
    backend.register(family)
    family
  }

  /** Drops a family and all its entries, with the next commit. False if there is no such family. */
  def dropFamily(name: String): Boolean = {
    val dropped = working.drop(name)
    dropped.foreach(family => backend.drop(family.id))
    dropped.nonEmpty
  }

  /** Commits the working copy as the version after the loaded one.
    *
    * @param id
    *   the name of this attempt; None with checkpoint format v1
    */
  def commit(id: Option[String]): Manifest = orUnload {
    val start = System.nanoTime
    val base = manifest
    lazy val file = local.newFile()
    val newest = inlineRuns.changes(backend, writer, file, base.version + 1, id)
    val wroteFile = newest.exists(_.source match {
      case FileSource(path) => RunFiles.isSst(path)
      case _: InlineSource => false
    })
    try {
      val next = nextManifest(base, newest, id)
      val versionBytes = VersionFile.write(storage, location, next)
      backend match {
        case fromFiles: RestoresFromFiles if wroteFile => fromFiles.changesCommitted(file)
        case other => other.changesCommitted()
      }
      loaded = new Loaded(next, backend, current.later)
      mover.foreach(_.report(backend, next.numKeys))
      tellOfCommit(start, base, next, versionBytes)
      next
    } finally
      if (wroteFile)
        file.delete(): Unit
  }

  /** The version after `base`, with the run of its changes. Compacts runs that are many. */
  private def nextManifest(base: Manifest, newest: Option[Run], id: Option[String]): Manifest = {
    val version = base.version + 1
    val merged = compaction.applyTo(base, families.toSeq, backend)
    val runs = inlineRuns.runsOf(base, merged.runs, newest, writer, working.ids)
    val entryCounts = families.iterator.map { family =>
      family.id -> EntryCounts(base.partitioning.ownGroups.map(backend.count(family.id, _)))
    }.toMap
    val next = base.copy(
      version = version,
      id = id,
      baseId = base.id,
      partitioning = base.partitioning.copy(
        hashPartitions = settings.hashPartitions.orElse(base.partitioning.hashPartitions),
        rescaledAt = base.partitioning.rescaledAt
          .orElse(Option.when(beganOtherwise(version, id))(Partitioning.AtStart))
      ),
      nextFamilyId = working.nextId,
      families = families.toSeq,
      entryCounts = entryCounts,
      runs = runs,
      mergedAt = merged.mergedAt
    )
    mover.flatMap(_.entryBytes(backend, next.numKeys)).fold(next) { measured =>
      next.copy(entryBytes = Some(measured))
    }
  }

  /** Whether the first batch was started with another number of partitions, see
    * `Rescaling.runEmpty`. It matters only for the first version with checkpoint format v1: later
    * versions inherit the name from the version before.
    */
  private def beganOtherwise(version: Long, id: Option[String]): Boolean =
    version == 1 && id.isEmpty && settings.partitions.exists { n =>
      storage.exists(VersionFile.path(location, 0, Some(VersionFile.partitionsName(n))))
    }

  private def tellOfCommit(
      start: Long,
      base: Manifest,
      next: Manifest,
      versionBytes: Long
  ): Unit = {
    val newFiles =
      next.runs.filter(run => run.source.isInstanceOf[FileSource] && !base.runs.contains(run))
    val requests = storage.counts
    lastCommit = CommitStatistics(
      millisSince(start),
      newFiles.size + 1,
      newFiles.map(_.bytes).sum + versionBytes,
      requests - requestsTold
    )
    requestsTold = requests
  }

  /** Undoes the changes since the load or the last commit. */
  def rollback(): Unit = if (isLoaded) orUnload {
    backend.rollback()
    working.reset(manifest)
  }

  /** Unloads the store if the body fails. */
  private def orUnload[T](body: => T): T =
    try body
    catch {
      case e: Throwable =>
        unload()
        throw e
    }

  /** Drops the loaded version without closing its backend, because somebody still uses the backend.
    */
  def abandon(): Unit = {
    loaded = null
    mover.foreach(_.unloaded())
  }

  /** A version's manifest, independent of the loaded version. */
  def readManifest(version: Long, id: Option[String]): Manifest =
    VersionFinder.read(storage, location, version, id, settings.partitions)

  /** A version's changes of one family. Empty if it changed nothing. */
  def readChanges(manifest: Manifest, family: StateFamily): Seq[Change] =
    manifest.ownRun.fold(Seq.empty[Change]) { run =>
      val groups = manifest.partitioning.readGroups
      val cursor = files.read(run, isWhole = false, Set(family.id), groups, manifest.version)
      try cursor.toVector
      finally cursor.close()
    }

  def exists(version: Long, id: Option[String]): Boolean =
    version == 0 || storage.exists(
      VersionFinder.file(storage, location, version, id, settings.partitions)
    )

  /** Merges runs, and deletes files that no retained version needs. May be called in any thread. */
  def maintain(): Unit = {
    val snapshot = loaded
    if (snapshot != null) {
      val manifest = snapshot.manifest
      val wantsAll = removedUntil > 0 && manifest.version >= removedUntil &&
        !VersionedStore.isRidOf(manifest, removedUntil)
      compaction.run(manifest, snapshot.backend, writer, wantsAll)
      cleanUp.run(snapshot.manifest.version, snapshot.manifest.runs ++ compaction.result)
    }
  }

  /** Whether the loaded version's files have lost all entries that were removed up to a version. */
  def isRidOf(version: Long): Boolean = VersionedStore.isRidOf(manifest, version)

  /** Makes `maintain` merge all runs, once, so that no entry that was removed up to a version is
    * left in them. From then on the clean-up deletes the files that still have such entries.
    */
  def getRidOf(version: Long): Unit = removedUntil = math.max(removedUntil, version)

  /** Makes a running `maintain`, and every later one, end soon. May be called in any thread. */
  def cancelMaintenance(): Unit = compaction.cancel()

  /** Unloads the store, and leaves its entries in memory for the next stores. Uncommitted changes
    * are undone.
    */
  def leave(): Unit = if (isLoaded)
    try
      backend match {
        case heap: HandsOver =>
          rollback()
          localRecovery.retain(manifest, heap.handOver(manifest.partitioning.groups))
        case _ =>
      }
    finally unload()

  override def close(): Unit = {
    cancelMaintenance()
    try leave()
    finally local.close()
  }

  private def current: Loaded = {
    val current = loaded
    if (current == null) throw new IllegalStateException(s"no version of $location is loaded")
    current
  }

  private def unload(): Unit = {
    val previous = loaded
    loaded = null
    if (previous != null)
      try previous.backend.close()
      finally mover.foreach(_.unloaded())
  }

  private def open(manifest: Manifest): Unit = {
    val found = manifest.partitioning
    settings.maxParallelism.filter(_ != found.maxParallelism).foreach { configured =>
      throw new MaxParallelismMismatchException(location, found.maxParallelism, configured)
    }
    settings.parallelism
      .map(KeyGroups.rangeOf(location.partition, _, found.maxParallelism))
      .filter(_ != found.groups)
      .foreach { owned =>
        throw new KeyGroupsMismatchException(location, show(found.groups), show(owned))
      }

    val (backend, later) = loadNew(manifest, mover.map(expectedBy(_, manifest)))
    loaded = new Loaded(manifest, backend, later)
    working.reset(manifest)
    mover.foreach(_.report(backend, manifest.numKeys))
  }

  private def newBackend(manifest: Manifest): KeyedStateBackend = {
    val backend = backends.create(manifest.partitioning.maxParallelism, () => local.newFolder())
    writer = newWriter(asSst = backend.isInstanceOf[RestoresFromFiles])
    backend
  }

  private def newWriter(asSst: Boolean) =
    new RunWriter(location, storage, local, asSst, settings.sectionBytes)

  /** Announces the number of entries to the factory, unless all of them are in memory. Returns the
    * entries in memory.
    */
  private def expectedBy(mover: AdaptiveBackendFactory, manifest: Manifest): Recovered = {
    val recovered = loader.recover(manifest)
    val groups = manifest.partitioning.groups
    val isInMemory = recovered.nonEmpty && manifest.families.forall { family =>
      (groups.first to groups.last).forall { group =>
        recovered.contains((family.id, group)) || manifest.count(family.id, group) == 0
      }
    }
    if (!isInMemory) mover.expect(manifest.numKeys, manifest.heapBytesPerEntry)
    recovered
  }

  /** A new backend with a version.
    *
    * @param recovered
    *   the version's entries in memory; None if they were not looked up yet
    */
  private def loadNew(
      manifest: Manifest,
      recovered: Option[Recovered]
  ): (KeyedStateBackend, Option[OnDemandLoad]) =
    try {
      val backend = newBackend(manifest)
      try backend -> loader.into(backend, manifest, recovered)
      catch {
        case e: Throwable =>
          backend.close()
          throw e
      }
    } catch {
      case e: Throwable =>
        mover.foreach(_.unloaded())
        throw e
    }

  private def tellOfMove(reason: String): Unit = {
    moveCount += 1
    log.info("The state of {} {}", location: Any, reason)
  }

  private def timed(load: => Unit): Unit = {
    val start = System.nanoTime
    load
    lastLoad = LoadStatistics(millisSince(start), manifest.runs.size)
  }

  private def show(groups: KeyGroupRange): String = s"${groups.first} to ${groups.last}"

  private def millisSince(nanos: Long): Long = NANOSECONDS.toMillis(System.nanoTime - nanos)
}

private object VersionedStore {
  private val log = LoggerFactory.getLogger(classOf[VersionedStore])

  private def isRidOf(manifest: Manifest, version: Long): Boolean =
    manifest.runs.isEmpty || manifest.mergedAt.exists(_ >= version)
}
