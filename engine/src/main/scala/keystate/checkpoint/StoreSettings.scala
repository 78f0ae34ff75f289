package keystate.checkpoint

import keystate.files.RequestCounts
import keystate.version.SectionedRun

/** A store's settings, from its query and the user.
  *
  * @param maxParallelism
  *   the number of key groups; None takes the recorded number, or the default for a new store
  * @param parallelism
  *   how many partitions share the key groups by range; None: the store holds all groups, because
  *   something else decides which keys come here
  * @param hashPartitions
  *   how many partitions there are when something else decides which keys come here
  * @param minVersionsToRetain
  *   how many of the newest versions must stay loadable
  * @param minVersionsToDelete
  *   the number of deletable versions from which a clean-up pays off
  * @param inlineBytes
  *   the maximum bytes of inline runs in a version file
  * @param sectionBytes
  *   the minimum length of a run file's sections, in bytes before compression
  * @param onDemandBytes
  *   a version with more bytes of runs is loaded in pieces on demand, if its backend can do that
  * @param pieceEntries
  *   the minimum number of entries in such a piece, if its state has as many
  */
final case class StoreSettings(
    maxParallelism: Option[Int] = None,
    parallelism: Option[Int] = None,
    hashPartitions: Option[Int] = None,
    minVersionsToRetain: Int = 100,
    minVersionsToDelete: Long = 30,
    inlineBytes: Long = StoreSettings.InlineBytes,
    sectionBytes: Int = SectionedRun.SectionBytes,
    onDemandBytes: Long = StoreSettings.OnDemandBytes,
    pieceEntries: Long = StoreSettings.PieceEntries
) {

  /** The number of partitions, if it is known. */
  def partitions: Option[Int] = parallelism.orElse(hashPartitions)
}

object StoreSettings {

  /** A file of so many bytes takes no longer to write than an empty one. */
  final val InlineBytes = 64L * 1024

  /** So many bytes of small entries are loaded in 10 ms. */
  final val OnDemandBytes = 512L * 1024

  /** So many small entries are loaded in a millisecond. */
  final val PieceEntries = 4096L
}

/** The cost of a store's last load, for its metrics: all 0 if nothing was read. */
final case class LoadStatistics(millis: Long, runs: Int)

/** The cost of a store's last commit, for its metrics.
  *
  * @param requests
  *   requests to the checkpoint's storage since the commit before, including load and maintenance
  */
final case class CommitStatistics(
    millis: Long,
    filesWritten: Int,
    bytesWritten: Long,
    requests: RequestCounts
)
