package keystate.checkpoint

import scala.collection.mutable

import org.scalatest.Suite

import keystate.backend.StateBackendFactory
import keystate.backend.auto.{AutoStateBackendFactory, HeapShare}
import keystate.files.{CheckpointStorage, StoreLocation}

/** Stores that move between the heap and RocksDB. */
trait OnAuto extends OnRocksDB { this: Suite =>
  protected val heapShare: HeapShare = new HeapShare
  private val made = mutable.Buffer.empty[VersionedStore]

  /** How many bytes the heap has at the moment; a half of that is for state. */
  protected def maxHeap: Long

  override protected def backends: StateBackendFactory = {
    val factory = new AutoStateBackendFactory(heapShare, () => maxHeap)
    factory.configure(Map("rocksdb.memoryMB" -> s"$memoryMB", "auto.heapShare" -> "0.5"))
    factory
  }

  override protected def newStore(
      storage: CheckpointStorage,
      settings: StoreSettings,
      at: StoreLocation
  ): VersionedStore = {
    val store = super.newStore(storage, settings, at)
    made += store
    store
  }

  protected def mostMoves: Long = made.map(_.moves).max

  override protected def afterAll(): Unit = {
    assert(heapShare.isEmpty, "stores that were closed still count")
    super.afterAll()
  }
}

/** No state fits on the heap. */
trait OnFullHeap extends OnAuto { this: Suite =>
  override protected def maxHeap: Long = 2

  override protected def afterAll(): Unit = {
    assert(mostMoves > 0)
    super.afterAll()
  }
}

/** Any state fits, or none: at any time another way. */
trait OnChangingHeap extends OnAuto { this: Suite =>
  private val random = new scala.util.Random(1)

  override protected def maxHeap: Long = if (random.nextInt(3) == 0) 2 else Long.MaxValue

  override protected def afterAll(): Unit = {
    assert(mostMoves > 1, "no store has moved there and back")
    super.afterAll()
  }
}

class FullHeapVersionedStoreSuite extends VersionedStoreSuite with OnFullHeap
class FullHeapMaintenanceSuite extends MaintenanceSuite with OnFullHeap
class FullHeapStoreModelSuite extends StoreModelSuite with OnFullHeap
class ChangingHeapStoreModelSuite extends StoreModelSuite with OnChangingHeap
class ChangingHeapRescalingModelSuite extends RescalingModelSuite with OnChangingHeap
