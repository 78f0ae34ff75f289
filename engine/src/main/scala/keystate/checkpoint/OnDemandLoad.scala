package keystate.checkpoint

import keystate.backend.{
  ChangeSink, GroupSource, KeyedStateBackend, Layout, LoadsOnDemand, StateFamily
}
import keystate.keygroup.KeyGroupRange
import keystate.version.{FileSource, InlineSource, Manifest, Run}

/** Loads a version in pieces of some key groups each, when its backend asks for them. So a restart
  * begins without reading every entry, and state that is never used takes no memory.
  *
  * The version's runs stay on this machine until all pieces are loaded or the backend is closed.
  * Every micro-batch reads ordered states, such as timers, and the operator group, so they are
  * loaded immediately.
  *
  * @param pieceEntries
  *   the minimum number of entries in a piece, if its state has as many
  * @param isThere
  *   whether the backend already has all entries of a family and key group
  * @param explained
  *   makes a better error of the backend's error for entries that its states can't have
  */
private[checkpoint] final class OnDemandLoad(
    manifest: Manifest,
    runs: Seq[LocalRun],
    pieceEntries: Long,
    isThere: (Int, Int) => Boolean,
    explained: Throwable => Throwable
) {
  private var piecesLeft = 0
  private var failed = false

  /** Whether a piece could not be loaded. Loading the same version again then reads all files
    * again, because only this machine's copy of a run may be damaged.
    */
  def hasFailed: Boolean = failed

  def into(backend: KeyedStateBackend with LoadsOnDemand): Unit = {
    val (later, now) =
      if (runs.forall(_.isSplit)) manifest.families.partition(OnDemandLoad.canWait)
      else (Nil, manifest.families)
    val loader = backend.loader(manifest.count)
    val operator = manifest.partitioning.operatorGroup
    now.map(_.id).groupBy(missing).foreach { case (ranges, families) =>
      ranges.foreach(move(loader, families.toSet, _))
    }
    move(loader, (now ++ later).map(_.id).toSet, KeyGroupRange(operator, operator))
    later.foreach { family =>
      val source = new Source(family.id)
      piecesLeft += source.pieces.size
      backend.loadOnDemand(family.id, source)
    }
    if (piecesLeft == 0) closeRuns()
  }

  /** The key groups of a family that are to be loaded. */
  private def missing(family: Int): Seq[KeyGroupRange] =
    OnDemandLoad.missing(manifest.partitioning.groups, isThere(family, _))

  private def closeRuns(): Unit = runs.foreach(_.close())

  private def move(sink: ChangeSink, families: Set[Int], groups: KeyGroupRange): Unit =
    if (families.nonEmpty) runs.foreach(_.moveTo(sink, families, groups))

  private final class Source(family: Int) extends GroupSource {
    override val pieces: Seq[KeyGroupRange] =
      missing(family).flatMap(OnDemandLoad.pieces(_, pieceEntries, count))

    override def count(group: Int): Long = manifest.count(family, group)

    override def load(piece: KeyGroupRange, sink: ChangeSink): Unit = {
      try move(sink, Set(family), piece)
      catch {
        case e: Throwable =>
          failed = true
          throw explained(e)
      }
      piecesLeft -= 1
      if (piecesLeft == 0) closeRuns()
    }

    override def close(): Unit = closeRuns()
  }
}

private[checkpoint] object OnDemandLoad {

  /** The most pieces of a state: a run without an index is read again for each. */
  final val MostPieces = 64

  /** Whether any state of the version can be loaded in this way, from these of its runs. An SST
    * file can't be read in pieces.
    */
  def isPossible(manifest: Manifest, runs: Seq[Run]): Boolean =
    manifest.families.exists(canWait) && runs.forall(_.source match {
      case FileSource(path) => RunFiles.isSectioned(path)
      case _: InlineSource => true
    })

  private def canWait(family: StateFamily): Boolean = family.layout != Layout.Ordered

  /** The groups that are not there, as ranges. */
  def missing(groups: KeyGroupRange, isThere: Int => Boolean): Seq[KeyGroupRange] =
    (groups.first to groups.last).filterNot(isThere).foldLeft(Vector.empty[KeyGroupRange]) {
      case (before :+ KeyGroupRange(first, last), group) if last + 1 == group =>
        before :+ KeyGroupRange(first, group)
      case (ranges, group) => ranges :+ KeyGroupRange(group, group)
    }

  /** Divides groups into pieces with enough entries each, at most `MostPieces`; the last one may
    * have fewer.
    *
    * @param fewest
    *   how many entries are enough
    * @param count
    *   how many entries a group has
    */
  def pieces(groups: KeyGroupRange, fewest: Long, count: Int => Long): Seq[KeyGroupRange] = {
    val all = (groups.first to groups.last).map(count)
    val enough = Math.max(fewest, (all.sum + MostPieces - 1) / MostPieces)
    val pieces = Seq.newBuilder[KeyGroupRange]
    var first = groups.first
    var entries = 0L
    for (group <- groups.first to groups.last) {
      entries += all(group - groups.first)
      if (entries >= enough || group == groups.last) {
        pieces += KeyGroupRange(first, group)
        first = group + 1
        entries = 0
      }
    }
    pieces.result()
  }
}
