package keystate.backend.rocksdb

/** A filter that can grow: layers of Bloom filters. Additions go to the newest layer, and a lookup
  * asks all layers.
  */
private[rocksdb] final class GrowingFilter(firstCapacity: Long) {
  import GrowingFilter._

  private var layers = Array(new BlockedBloomFilter(firstCapacity))
  private var added = 0L
  private var room = firstCapacity

  /** The number of hashes it is sized for. */
  def capacity: Long = layers.map(_.capacity).sum

  def bytes: Long = layers.map(_.bytes).sum

  /** The number of hashes added. */
  def size: Long = added

  /** Whether `grow` or `overfill` must be called before the next addition. */
  def isFull: Boolean = added >= room
  def canGrow: Boolean = layers.length < MaxLayers
  def canOverfill: Boolean = room < capacity * MaxOverfill

  def mayHave(hash: Long): Boolean = {
    // The newest is the largest and has the most keys.
    var layer = layers.length - 1
    while (layer >= 0 && !layers(layer).mayHave(hash)) layer -= 1
    layer >= 0
  }

  def add(hash: Long): Unit = {
    layers.last.add(hash)
    added += 1
  }

  /** Makes it twice as large. It then takes as many bytes more as it did. The new half is empty, even
    * if the other was overfilled.
    */
  def grow(): Unit = {
    layers :+= new BlockedBloomFilter(capacity)
    room = added + layers.last.capacity
  }

  /** Takes some more with the bytes that it has. */
  def overfill(): Unit = room += Math.max(capacity / 8, 1)
}

private object GrowingFilter {
  private final val MaxLayers = 4
  private final val MaxOverfill = 2
}
