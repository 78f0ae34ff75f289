package keystate.localrecovery

import scala.collection.mutable

/** Where the partitions of a query are to go on, that what is in memory there need not be read again.
  *
  * A place gets no more than its even share of the new partitions, and one which was added gets
  * some at once: those that nobody has, or whose places have their share.
  */
object PreferredLocations {

  /** By the new partition.
    *
    * @param before
    *   where each old partition is, if that is known. Partitions of both numbers are even ranges of
    *   the same keys
    * @param partitions
    *   how many there will be
    * @param now
    *   the places that are there; if none is, no partition has one
    */
  def of[P](before: IndexedSeq[Option[P]], partitions: Int, now: Seq[P]): IndexedSeq[Option[P]] = {
    val share = math.ceil(partitions / now.size.toDouble)
    val result = mutable.IndexedSeq.fill(partitions)(Option.empty[P])
    val held = mutable.Map.empty[P, Int].withDefaultValue(0)
    def give(partition: Int, place: P): Unit = {
      result(partition) = Some(place)
      held(place) += 1
    }
    // The largest parts first: what moves is small then.
    for {
      (partition, place, _) <- parts(before, partitions).sortBy { case (partition, _, size) =>
        (-size, partition)
      }
      if now.contains(place) && result(partition).isEmpty && held(place) < share
    } give(partition, place)
    for (partition <- 0 until partitions if result(partition).isEmpty && now.nonEmpty)
      give(partition, now.minBy(held))
    result.toIndexedSeq
  }

  /** How much of each new partition each place has, as a share of all keys by a common measure. */
  private def parts[P](before: IndexedSeq[Option[P]], partitions: Int): IndexedSeq[(Int, P, Long)] =
    (0 until partitions).flatMap { partition =>
      val (from, until) = (partition.toLong * before.size, (partition + 1L) * before.size)
      ((from / partitions).toInt until ((until + partitions - 1) / partitions).toInt)
        .flatMap { old =>
          val size =
            math.min(until, (old + 1L) * partitions) - math.max(from, old.toLong * partitions)
          before(old).map(_ -> size)
        }
        .groupMapReduce(_._1)(_._2)(_ + _)
        .map { case (place, size) => (partition, place, size) }
    }
}
