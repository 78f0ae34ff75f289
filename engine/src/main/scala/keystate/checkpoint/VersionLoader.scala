package keystate.checkpoint

import java.nio.BufferUnderflowException

import scala.collection.mutable

import org.rocksdb.RocksDBException
import org.slf4j.LoggerFactory

import keystate.backend.{
  ChangeSink, GroupEntries, HandsOver, KeyedStateBackend, LoadsOnDemand, RestoredRun,
  RestoresFromFiles, RunEntries, RunFile
}
import keystate.errors.CorruptFileException
import keystate.files.{CheckpointStorage, Concurrently, StoreLocation}
import keystate.keygroup.KeyGroupRange
import keystate.localrecovery.LocalRecovery
import keystate.version.{Manifest, Run, VersionFile}

/** Loads a version into a new backend, in the way that the backend can best: it takes over run
  * files, asks for key groups when it needs them, or gets every entry. What other stores left in
  * memory is not loaded; of runs that have nothing else not even the files are fetched.
  */
private[checkpoint] final class VersionLoader(
    location: StoreLocation,
    storage: CheckpointStorage,
    files: RunFiles,
    settings: StoreSettings,
    localRecovery: LocalRecovery
) {

  import VersionLoader._

  /** The part of a version that is in memory, by family and group. */
  def recover(manifest: Manifest): Recovered = localRecovery.recover(manifest)

  /** Returns the loader of the remaining entries, for the backend to call; None if all are loaded.
    *
    * @param found
    *   the part that is in memory; None if it was not looked up yet
    */
  def into(
      backend: KeyedStateBackend,
      manifest: Manifest,
      found: Option[Recovered]
  ): Option[OnDemandLoad] =
    try {
      manifest.families.foreach(backend.register)
      val runs = manifest.runs.filter(_.groups.intersects(manifest.partitioning.readGroups))
      val recovered = takeOver(backend, found.getOrElse(recover(manifest)))
      val needed = runs.filter(isNeeded(manifest, _, recovered))
      val later = backend match {
        case fromFiles: RestoresFromFiles =>
          restore(manifest, runs, fromFiles)
          None
        case onDemand: LoadsOnDemand
            if OnDemandLoad.isPossible(manifest, needed) &&
              (recovered.nonEmpty || needed.map(_.bytes).sum > settings.onDemandBytes) =>
          Some(loadOnDemand(manifest, needed, onDemand, recovered))
        case other =>
          load(manifest, needed, other, recovered)
          None
      }
      backend.changesCommitted()
      later
    } catch { case e: Throwable => throw explained(manifest, e) }

  /** Passes the backend the entries in memory that it can take; returns their families and groups.
    */
  private def takeOver(backend: KeyedStateBackend, found: => Recovered): Set[(Int, Int)] =
    backend match {
      case heir: HandsOver =>
        val entries = found
        entries.foreach { case ((family, group), own) => heir.takeOver(family, group, own) }
        if (entries.nonEmpty)
          log.info(
            "{} goes on with what is in memory of {} of its key groups",
            location: Any,
            entries.keysIterator.map(_._2).distinct.size
          )
        entries.keySet
      case _ =>
        localRecovery.supersede()
        Set.empty
    }

  /** Whether a run has any entry that is not recovered. */
  private def isNeeded(manifest: Manifest, run: Run, recovered: Set[(Int, Int)]): Boolean =
    recovered.isEmpty || run.groups.contains(manifest.partitioning.operatorGroup) || {
      val own = run.groups.intersection(manifest.partitioning.groups)
      manifest.families.exists(family =>
        (own.first to own.last).exists(group => !recovered((family.id, group)))
      )
    }

  /** A better error for a backend's error for entries that its states can't have, although all
    * checksums are right.
    */
  private def explained(manifest: Manifest, error: Throwable): Throwable = error match {
    case _: IndexOutOfBoundsException | _: NegativeArraySizeException |
        _: BufferUnderflowException | _: IllegalArgumentException | _: RocksDBException =>
      val file = VersionFile.path(location, manifest.version, VersionFile.nameOf(manifest))
      new CorruptFileException(
        location,
        manifest.version,
        storage.describe(file),
        s"what it is made of cannot be loaded ($error)",
        error
      )
    case _ => error
  }

  private def load(
      manifest: Manifest,
      runs: Seq[Run],
      backend: KeyedStateBackend,
      recovered: Set[(Int, Int)]
  ): Unit = {
    val all = backend.loader(manifest.count)
    val loader = if (recovered.isEmpty) all else new Others(all, recovered)
    fetch(manifest, runs)(files.read)(_.close()) { cursor =>
      try cursor.moveTo(loader)
      finally cursor.close()
    }
  }

  private def loadOnDemand(
      manifest: Manifest,
      runs: Seq[Run],
      backend: KeyedStateBackend with LoadsOnDemand,
      recovered: Set[(Int, Int)]
  ): OnDemandLoad = {
    val local = mutable.Buffer.empty[LocalRun]
    try {
      fetch(manifest, runs)(files.keep)(_.close())(local += _)
      val load =
        new OnDemandLoad(
          manifest,
          local.toSeq,
          settings.pieceEntries,
          (family, group) => recovered((family, group)),
          explained(manifest, _)
        )
      load.into(backend)
      load
    } catch {
      case e: Throwable =>
        local.foreach(_.close())
        throw e
    }
  }

  private def restore(
      manifest: Manifest,
      runs: Seq[Run],
      backend: KeyedStateBackend with RestoresFromFiles
  ): Unit = {
    val local = mutable.Buffer.empty[RestoredRun]
    try {
      fetch(manifest, runs)(files.local)(discard)(local += _)
      backend.restore(local.toSeq, manifest.partitioning.groups, manifest.count)
    } finally local.foreach(discard)
  }

  private type Fetch[T] = (Run, Boolean, Set[Int], KeyGroupRange, Long) => T

  /** Uses the fetched part of each run, oldest first, while the next ones are fetched. */
  private def fetch[T](manifest: Manifest, runs: Seq[Run])(
      fetchRun: Fetch[T]
  )(giveUp: T => Unit)(use: T => Any): Unit = {
    val families = manifest.families.map(_.id).toSet
    val groups = manifest.partitioning.readGroups
    Concurrently.foreach(runs) { run =>
      fetchRun(run, manifest.isWhole(run), families, groups, manifest.version)
    }(giveUp) { fetched =>
      use(fetched): Unit
    }
  }

  private def discard(run: RestoredRun): Unit = run match {
    case RunFile(file, _, _) =>
      file.delete(): Unit
    case RunEntries(changes) => changes.close()
  }
}

private[checkpoint] object VersionLoader {

  /** Entries in memory, by family and key group. */
  type Recovered = Map[(Int, Int), GroupEntries]

  /** Leaves out the entries of some families and groups. */
  private final class Others(sink: ChangeSink, without: Set[(Int, Int)]) extends ChangeSink {
    override def add(
        family: Int,
        group: Int,
        key: Array[Byte],
        keyStart: Int,
        keyLength: Int,
        value: Array[Byte],
        valueStart: Int,
        valueLength: Int
    ): Unit = if (!without((family, group)))
      sink.add(family, group, key, keyStart, keyLength, value, valueStart, valueLength)
  }

  private val log = LoggerFactory.getLogger(classOf[VersionLoader])
}
