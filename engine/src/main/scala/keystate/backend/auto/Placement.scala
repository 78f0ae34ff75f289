package keystate.backend.auto

/** The places of a JVM's stores, and the stores that should move: the arithmetic of [[HeapShare]].
  * Sizes are in bytes; `share` is the part of the heap that state may take.
  *
  *   - When the stores on the heap exceed the share, the largest ones should leave, until the
  *     others take at most four fifths of it.
  *   - A store comes back when, including it, less than half of the share would be taken.
  *
  * Between the two limits nothing changes. So a store moves back and forth only if state shrinks to
  * half and grows to double again.
  */
private[auto] final case class Placement[S](
    stores: Map[S, Placement.Store] = Map.empty[S, Nothing]
) {
  import Placement._

  /** The bytes on the heap now. */
  def held: Long = bytesAt(Heap, Leaving)

  /** The bytes on the heap after all planned moves. */
  def planned: Long = bytesAt(Heap, Returning)

  def placeOf(store: S): Option[Place] = stores.get(store).map(_.place)

  /** A store on the heap has so many bytes now. */
  def onHeap(store: S, bytes: Long, share: Long): Placement[S] = {
    val place = if (placeOf(store).contains(Leaving)) Leaving else Heap
    placed(store, place, bytes).relieved(share)
  }

  /** A store in RocksDB would have so many bytes on the heap. */
  def inRocksDB(store: S, bytes: Long, share: Long): Placement[S] = {
    val others = without(store).bytesAt(Heap, Leaving, Returning)
    placed(store, if (others + bytes < share * ComesBack) Returning else RocksDB, bytes)
  }

  /** Whether a store of this size should not even start on the heap: because the share would be
    * exceeded, and the store is one of the largest, which would leave. A small store goes on the
    * heap.
    */
  def beginsInRocksDB(store: S, bytes: Long, share: Long): Boolean = {
    val others = without(store)
    val largest = others.stores.valuesIterator.filter(_.place != RocksDB).map(_.bytes).maxOption
    others.bytesAt(Heap, Leaving, Returning) + bytes > share &&
    bytes >= largest.fold(0.0)(_ * OneOfTheLargest)
  }

  /** Removes a store that is closed, or is loaded again. */
  def without(store: S): Placement[S] = Placement(stores - store)

  private def relieved(share: Long): Placement[S] = if (planned <= share) this
  else {
    val largestFirst = stores.toSeq
      .filter { case (_, store) => store.place == Heap || store.place == Returning }
      .sortBy { case (_, store) => -store.bytes }
    val leftBefore = largestFirst.scanLeft(planned) { case (left, (_, store)) =>
      left - store.bytes
    }
    largestFirst
      .zip(leftBefore)
      .takeWhile { case (_, left) => left > share * Relieved }
      .foldLeft(this) { case (placement, ((store, Store(place, bytes)), _)) =>
        placement.placed(store, if (place == Heap) Leaving else RocksDB, bytes)
      }
  }

  private def placed(store: S, place: Place, bytes: Long): Placement[S] =
    Placement(stores.updated(store, Store(place, bytes)))

  private def bytesAt(places: Place*): Long =
    stores.valuesIterator.filter(store => places.contains(store.place)).map(_.bytes).sum
}

private[auto] object Placement {
  private final val Relieved = 0.8
  private final val ComesBack = 0.5
  private final val OneOfTheLargest = 0.5

  sealed trait Place
  case object Heap extends Place

  /** On the heap, and about to move to RocksDB. */
  case object Leaving extends Place
  case object RocksDB extends Place

  /** In RocksDB, and to go to the heap, where room is kept for it. */
  case object Returning extends Place

  /** @param bytes
    *   the store's bytes on the heap, now or after a move
    */
  final case class Store(place: Place, bytes: Long)
}
