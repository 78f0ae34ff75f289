package keystate.checkpoint

import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}
import org.scalatest.{BeforeAndAfterAll, Suite}

import keystate.backend.StateBackendFactory
import keystate.backend.heap.HeapStateBackendFactory
import keystate.backend.rocksdb.{RocksDBStateBackendFactory, SharedMemory}

/** Stores whose working copy is in RocksDB. */
trait OnRocksDB extends StoreFixture with BeforeAndAfterAll { this: Suite =>

  protected def memoryMB: Int = 32

  protected def rocksDB: StateBackendFactory = {
    val factory = new RocksDBStateBackendFactory
    factory.configure(Map("memoryMB" -> s"$memoryMB"))
    factory
  }

  override protected def backends: StateBackendFactory = rocksDB

  override protected def afterAll(): Unit = {
    // A merge in the background may be on its way out.
    eventually(timeout(Span(20, Seconds))) {
      assert(leftBehind.isEmpty)
      assert(!SharedMemory.isInUse, "a store's native objects were not closed")
    }
    super.afterAll()
  }
}

/** Each store has the other backend than the one before. */
trait OnBothBackends extends OnRocksDB { this: Suite =>
  private val made = new AtomicInteger

  override protected def backends: StateBackendFactory =
    if (made.getAndIncrement() % 2 == 0) rocksDB else new HeapStateBackendFactory
}

class RocksDBVersionedStoreSuite extends VersionedStoreSuite with OnRocksDB
class RocksDBMaintenanceSuite extends MaintenanceSuite with OnRocksDB
class RocksDBStoreModelSuite extends StoreModelSuite with OnRocksDB
class RocksDBRescalingModelSuite extends RescalingModelSuite with OnRocksDB
class RocksDBRepartitioningSuite extends RepartitioningSuite with OnRocksDB {
  override protected def takesSst: Boolean = true
}
class ChangingBackendStoreModelSuite extends StoreModelSuite with OnBothBackends
class ChangingBackendRescalingModelSuite extends RescalingModelSuite with OnBothBackends
