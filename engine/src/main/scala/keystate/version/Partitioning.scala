package keystate.version

import keystate.keygroup.{KeyGroupRange, KeyGroups}

/** How a store's state is divided among partitions, and which part of it a version holds.
  *
  * @param maxParallelism
  *   the number of key groups
  * @param parallelism
  *   how many partitions share the key groups by range; None where the partition has all groups,
  *   because something else decides which keys it gets
  * @param partition
  *   the version's partition
  * @param groups
  *   its key groups
  * @param rescaledAt
  *   the version where another partitioning ended; None if there was no other
  * @param hashPartitions
  *   how many partitions there are where keys go to them by hash; None elsewhere
  */
final case class Partitioning(
    maxParallelism: Int,
    parallelism: Option[Int],
    partition: Int,
    groups: KeyGroupRange,
    rescaledAt: Option[Long] = None,
    hashPartitions: Option[Int] = None
) {

  /** In how many partitions the store's state is, if that is known. */
  def partitions: Option[Int] = parallelism.orElse(hashPartitions)

  /** The range of groups that are read from a version's runs: from the first of its key groups to
    * the operator group. Its runs have no groups between its key groups and the operator group: a
    * rescale lists the part of another partition as two runs, one for key groups and one for the
    * operator group.
    */
  def readGroups: KeyGroupRange = KeyGroupRange(groups.first, operatorGroup)

  /** The groups it holds, one by one: its key groups in order, then the operator group. */
  def ownGroups: IndexedSeq[Int] = (groups.first to groups.last) :+ operatorGroup

  /** The position of a group in `ownGroups`. */
  def indexOf(group: Int): Int =
    if (groups.contains(group)) group - groups.first else groups.size

  def operatorGroup: Int = KeyGroups.operatorGroup(maxParallelism)
}

object Partitioning {

  /** The version that a state was rescaled at before it had anything. */
  final val AtStart = 0L

  /** One partition of a state that was never rescaled. */
  def apply(maxParallelism: Int, parallelism: Option[Int], partition: Int): Partitioning =
    Partitioning(
      maxParallelism,
      parallelism,
      partition,
      groupsOf(maxParallelism, parallelism, partition)
    )

  /** The key groups that are a partition's own. */
  def groupsOf(maxParallelism: Int, parallelism: Option[Int], partition: Int): KeyGroupRange =
    parallelism.fold(KeyGroupRange(0, maxParallelism - 1))(
      KeyGroups.rangeOf(partition, _, maxParallelism)
    )
}
