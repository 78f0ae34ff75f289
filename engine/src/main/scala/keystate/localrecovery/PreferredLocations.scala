package keystate.localrecovery

import scala.collection.mutable

/** Chooses executors for the partitions of a query, so that data in their memory need not be read
  * again.
  *
  * A place gets at most its even share of the new partitions. An added place gets some immediately:
  * partitions that are in no place's memory, or whose places have their share already.
  */
object PreferredLocations {

  /** The place of each new partition.
    *
    * @param before
    *   the place of each old partition, if it is known. Old and new partitions are even ranges of
    *   the same keys
    * @param partitions
    *   the new number of partitions
    * @param now
    *   the available places; if there are none, no partition has a place
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

  /** How much of each new partition each place has, as a share of all keys in a common unit. */
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
