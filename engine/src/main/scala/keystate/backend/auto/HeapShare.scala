package keystate.backend.auto

/** The heap use of all stores of a JVM, and the stores that should move. Stores are identified by
  * reference. If stores pass different shares, the smallest counts. Any thread may use it.
  */
private[keystate] final class HeapShare {
  import Placement._

  private var placement = Placement[AnyRef]()
  private var shares = Map.empty[AnyRef, Long]

  /** Announces that a store will be loaded with this many bytes on the heap. Returns a reason if
    * the store must not start there. Otherwise the bytes count immediately, so that stores that are
    * loaded at the same time do not all start there.
    */
  def expect(store: AnyRef, bytes: Long, share: Long): Option[String] = synchronized {
    val least = smallest(store, share)
    if (placement.beginsInRocksDB(store, bytes, least)) {
      val held = placement.held
      remove(store)
      Some(
        f"begins in RocksDB: it would take about $bytes%,d bytes on the heap, and all stores have " +
          f"$held%,d, where $least%,d bytes are for state"
      )
    } else {
      placement = placement.onHeap(store, bytes, least)
      None
    }
  }

  /** A store has so many bytes on the heap, after a load or a commit. */
  def onHeap(store: AnyRef, bytes: Long, share: Long): Unit = synchronized {
    placement = placement.onHeap(store, bytes, smallest(store, share))
  }

  /** A store in RocksDB would have so many bytes on the heap. */
  def inRocksDB(store: AnyRef, bytes: Long, share: Long): Unit = synchronized {
    placement = placement.inRocksDB(store, bytes, smallest(store, share))
  }

  /** A store has nothing now, or is not there. */
  def remove(store: AnyRef): Unit = synchronized {
    placement = placement.without(store)
    shares -= store
  }

  def isEmpty: Boolean = synchronized(placement.stores.isEmpty && shares.isEmpty)

  /** Whether the store should move to the other place, with the reason. */
  def move(store: AnyRef): Option[String] = synchronized {
    placement.stores.get(store).collect {
      case Store(Leaving, bytes) => tooLarge(bytes, shares.values.min)
      case Store(Returning, bytes) =>
        f"moves to the heap: it will take about $bytes%,d bytes there, and with it all stores have " +
          f"${placement.planned}%,d of the ${shares.values.min}%,d bytes that are for state"
    }
  }

  private def smallest(store: AnyRef, share: Long): Long = {
    shares = shares.updated(store, share)
    shares.values.min
  }

  private def tooLarge(bytes: Long, share: Long): String =
    f"moves to RocksDB: it has $bytes%,d bytes on the heap, and all stores have " +
      f"${placement.held}%,d, where $share%,d bytes are for state"
}

private[keystate] object HeapShare {
  val ofThisJvm: HeapShare = new HeapShare
}
