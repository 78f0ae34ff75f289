package keystate.checkpoint

import keystate.files.RequestCounts
import keystate.version.SectionedRun

/** What a store is told of its query and of the user's settings.
  *
  * @param maxParallelism
  *   the number of key groups; None takes the recorded one, or the default for a new store
  * @param parallelism
  *   how many partitions share the key groups by range; None: the store holds all groups, because
  *   something else decides which keys come here
  * @param hashPartitions
  *   how many partitions there are when something else decides which keys come here
  * @param minVersionsToRetain
  *   how many of the newest versions must stay loadable
  * @param minVersionsToDelete
  *   how many deletable versions are worth a clean-up
  * @param inlineBytes
  *   the most bytes of inline runs in a version file
  * @param sectionBytes
  *   how long the sections of a run file are at least, in bytes before compression
  * @param onDemandBytes
  *   a version with runs of more bytes is loaded in pieces when these are asked for, if its backend
  *   can do that
  * @param pieceEntries
  *   how many entries such a piece has at least, if its state has as many
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

  /** How many partitions there are, if that is known. */
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

/** What the last load of a store took, for its metrics: all 0 if nothing was read. */
final case class LoadStatistics(millis: Long, runs: Int)

/** What the last commit of a store took, for its metrics.
  *
  * @param requests
  *   those to the checkpoint's storage since the commit before: of the load and of maintenance too
  */
final case class CommitStatistics(
    millis: Long,
    filesWritten: Int,
    bytesWritten: Long,
    requests: RequestCounts
)
