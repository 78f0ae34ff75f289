package keystate.checkpoint

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import keystate.backend.{Change, ChangeSink, Expiry, RunCursor, StateFamily, StateValue}
import keystate.version.{FileSource, Manifest, Run, RunMerge}

/** Merges runs of a committed version in the background, so that the number of runs to load stays
  * small however long a query runs.
  *
  * Committed versions do not change. The merged run is a new file. The next commit lists it instead
  * of the merged runs, if the commit's version still has these. Size-tiered: a run is merged with
  * the newer runs once these together are nearly as large, so that each entry is rewritten only a
  * logarithmic number of times.
  *
  * Any thread may call `run` and `cancel`, one thread at a time `run`; only the store's thread may
  * call `applyTo`.
  */
private[checkpoint] final class RunCompaction(files: RunFiles) {
  import RunCompaction._

  /** A merge that waits for the next commit.
    *
    * @param run
    *   None when no entry was left of the merged runs
    * @param families
    *   the families whose entries it took
    * @param dropped
    *   by family, the timestamp up to which it left out expired entries
    * @param ofAll
    *   the version of the merged runs, if they were all of its runs
    */
  private final class Merged(
      val workingCopy: AnyRef,
      val replaced: Seq[Run],
      val run: Option[Run],
      val families: Set[Int],
      val dropped: Map[Int, Long],
      val ofAll: Option[Long]
  )

  private val log = LoggerFactory.getLogger(classOf[RunCompaction])
  @volatile private var merged: Merged = _
  @volatile private var cancelled = false
  @volatile private var count = 0L

  /** The number of merges that commits have taken over. */
  def finished: Long = count

  /** The merged run that waits for the next commit; no version file lists it yet. */
  def result: Option[Run] = Option(merged).flatMap(_.run)

  /** Ends a merge that is running, and makes every later one do nothing. */
  def cancel(): Unit = cancelled = true

  /** Merges runs of a version if that pays off and no earlier merge waits.
    *
    * @param workingCopy
    *   the backend that the version is loaded in: the merge can be used as long as this is the
    *   store's backend
    * @param writer
    *   writes files of the kind that this backend takes over
    * @param wantsAll
    *   whether to merge all runs, so that no removed entry is left in any file
    */
  def run(manifest: Manifest, workingCopy: AnyRef, writer: RunWriter, wantsAll: Boolean): Unit =
    if (merged == null && !cancelled) {
      val (from, until) =
        if (wantsAll) (0, manifest.runs.size)
        else
          choose(manifest.runs) match {
            case (0, 0) => foreign(manifest.runs, writer)
            case chosen => chosen
          }
      if (from < until) {
        val replaced = manifest.runs.slice(from, until)
        val families = manifest.families.map(_.id).toSet
        try {
          val dropped = droppedUntil(manifest)
          val run = merge(manifest, replaced, families, dropped, from > 0, writer)
          val ofAll = Option.when(replaced.size == manifest.runs.size)(manifest.version)
          merged = new Merged(workingCopy, replaced, run, families, dropped, ofAll)
          log.info("Merged {} runs of version {} into {}", replaced.size, manifest.version, run)
        } catch {
          // The caller of `cancel` may be closing the store, and delete the local files in use.
          case NonFatal(e) if cancelled => log.info("Merging of runs was cancelled: {}", e.toString)
        }
      }
    }

  /** The version with the merged run instead of the runs that it was made from. The merge is
    * dropped if the version does not have all of these, one after the other.
    *
    * It is also dropped if the version has a family that did not exist at the merge: a family that
    * was made since, or that came back because a batch is run again, may have entries that the
    * merge left out. It is dropped if the store was loaded again since: in between another executor
    * may have had the store, whose clean-up did not know the merged file. And it is dropped if
    * entries that it left out as expired have not expired in the next version: a restart gave the
    * state a longer time to live, or none.
    *
    * @param next
    *   the families of the next version
    */
  def applyTo(manifest: Manifest, next: Seq[StateFamily], workingCopy: AnyRef): Manifest = {
    val merge = merged
    merged = null
    val at =
      if (merge == null || (merge.workingCopy ne workingCopy)) -1
      else manifest.runs.indexOfSlice(merge.replaced)
    if (
      at < 0 || !manifest.families.forall(family => merge.families.contains(family.id)) ||
      !haveExpired(next, merge.dropped)
    ) manifest
    else {
      count += 1
      manifest.copy(
        runs = manifest.runs.patch(at, merge.run, merge.replaced.size),
        mergedAt = merge.ofAll.filter(_ => at == 0).orElse(manifest.mergedAt)
      )
    }
  }

  /** The range of a run that another kind of backend wrote, to be written again once instead of at
    * each load; empty when there is none.
    */
  private def foreign(runs: Seq[Run], writer: RunWriter): (Int, Int) = {
    val at = runs.indexWhere(writer.isForeign)
    (at, at + (if (at < 0) 0 else 1))
  }

  private def merge(
      manifest: Manifest,
      runs: Seq[Run],
      families: Set[Int],
      dropped: Map[Int, Long],
      keepRemovals: Boolean,
      writer: RunWriter
  ): Option[Run] = {
    val cursors = IndexedSeq.newBuilder[RunCursor]
    try {
      runs.foreach { run =>
        checkCancelled()
        val isWhole = manifest.isWhole(run)
        val groups = manifest.partitioning.readGroups
        cursors += files.read(run, isWhole, families, groups, manifest.version)
      }
      val merge = new RunMerge(cursors.result(), keepRemovals, isExpired(dropped, _))
      val newest = runs.last
      def writeMerged(sink: ChangeSink): Unit = merge.foreach { change =>
        checkCancelled()
        sink.add(change)
      }
      Option.when(merge.hasNext)(writer.write(writeMerged, newest.version, newest.id))
    } finally cursors.result().foreach(_.close())
  }

  /** The timestamp up to which entries have expired, by family, on the clock of the merged version:
    * while the time to live does not change, all later versions hide these entries too.
    */
  private def droppedUntil(manifest: Manifest): Map[Int, Long] =
    manifest.families.flatMap { family =>
      Expiry.droppedUntil(family.properties).map(family.id -> _)
    }.toMap

  private def isExpired(until: Map[Int, Long], change: Change): Boolean =
    until.get(change.family).exists { time =>
      val timestamp = StateValue.timestamp(change.value)
      timestamp != StateValue.NoTimestamp && timestamp <= time
    }

  /** Whether all of these entries have expired in these families too. */
  private def haveExpired(families: Seq[StateFamily], dropped: Map[Int, Long]): Boolean =
    families.forall { family =>
      dropped.get(family.id).forall { until =>
        Expiry.droppedUntil(family.properties).exists(_ >= until)
      }
    }

  private def checkCancelled(): Unit = if (cancelled) throw new Cancelled
}

private[checkpoint] object RunCompaction {
  private final val MinFiles = 4
  private final val EntriesRatio = 1.5
  private final val BytesRatio = 2.0

  private final class Cancelled extends RuntimeException(null, null, false, false)

  /** The runs to merge, from (inclusive) and until (exclusive): the newest sequence in which no run
    * is much larger than all newer runs of it together, and which has at least `MinFiles` files, so
    * that the merge pays off. (0, 0) when there is none.
    *
    * A run has at most `EntriesRatio` times as many entries as the newer runs, because a merge
    * costs by the entry, and a merged file can have half the bytes for each. And it has at most
    * `BytesRatio` times as many bytes: a few large entries are not rewritten for many small ones.
    */
  private[checkpoint] def choose(runs: Seq[Run]): (Int, Int) = {
    def extend(from: Int, entries: Long, bytes: Long): Int =
      if (
        from > 0 && runs(from - 1).entries <= entries * EntriesRatio &&
        runs(from - 1).bytes <= bytes * BytesRatio
      ) extend(from - 1, entries + runs(from - 1).entries, bytes + runs(from - 1).bytes)
      else from

    (runs.length to MinFiles by -1).iterator
      .map(until => (extend(until - 1, runs(until - 1).entries, runs(until - 1).bytes), until))
      .find { case (from, until) =>
        runs.slice(from, until).count(_.source.isInstanceOf[FileSource]) >= MinFiles
      }
      .getOrElse((0, 0))
  }
}
