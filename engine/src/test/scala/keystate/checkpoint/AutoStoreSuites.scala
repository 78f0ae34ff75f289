package keystate.checkpoint

import scala.collection.mutable

import org.scalatest.Suite
import org.scalatest.funsuite.AnyFunSuite

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

  protected def anyOnDisk: Boolean = made.exists(_.isOnDisk)

  override protected def afterAll(): Unit = {
    assert(heapShare.isEmpty, "stores that were closed still count")
    super.afterAll()
  }
}

/** No state fits on the heap. */
trait OnFullHeap extends OnAuto { this: Suite =>
  override protected def maxHeap: Long = 2

  override protected def afterAll(): Unit = {
    assert(anyOnDisk)
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

/** Stores of which it is known what their entries take on the heap. */
class KnownStoresSuite extends AnyFunSuite with OnAuto {
  private var heap = Long.MaxValue
  override protected def maxHeap: Long = heap

  private def change(store: VersionedStore, key: Int): Unit =
    change(store, "p", key % 16, s"$key", large(key.toLong, 20))

  private def written(keys: Int): MemoryStorage = {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      (0 until keys).foreach(change(store, _))
      store.commit(None)
    }
    storage
  }

  /** What so many of these entries take. */
  private def bytesOf(keys: Int): Long = entryBytes * keys

  private lazy val entryBytes = withStore(written(2000)) { store =>
    store.readManifest(1, None).entryBytes.get
  }

  test("one that does not fit begins in RocksDB, without a move, and goes to the heap later") {
    heap = Long.MaxValue
    val storage = written(2000)
    assert(bytesOf(2000) > 2000 * 20)
    // A half of it is for state.
    heap = bytesOf(2000)
    withStore(storage) { store =>
      store.load(1, None)
      assert(store.isOnDisk && store.moves == 0)
      val before = content(store)
      assert(before.size == 2000)
      change(store, 1)
      store.commit(None)
      store.moveIfDue()
      assert(store.isOnDisk && store.moves == 0)
      heap = Long.MaxValue
      change(store, 2)
      store.commit(None)
      store.moveIfDue()
      assert(!store.isOnDisk && store.moves == 1)
      assert(content(store) == before)
    }
  }

  test("of two that are loaded at once one begins there") {
    heap = Long.MaxValue
    val (first, second) = (written(2000), written(1900))
    heap = bytesOf(2000) * 3
    withStore(first) { store =>
      store.load(1, None)
      withStore(second) { other =>
        other.load(1, None)
        assert(!store.isOnDisk && other.isOnDisk && store.moves + other.moves == 0)
        assert(content(store).size == 2000 && content(other).size == 1900)
      }
    }
  }
}

class FullHeapVersionedStoreSuite extends VersionedStoreSuite with OnFullHeap
class FullHeapMaintenanceSuite extends MaintenanceSuite with OnFullHeap
class FullHeapStoreModelSuite extends StoreModelSuite with OnFullHeap
class ChangingHeapStoreModelSuite extends StoreModelSuite with OnChangingHeap
class ChangingHeapRescalingModelSuite extends RescalingModelSuite with OnChangingHeap
