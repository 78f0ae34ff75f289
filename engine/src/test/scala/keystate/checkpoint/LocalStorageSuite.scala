package keystate.checkpoint

import java.io.File
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{KeyedStateBackend, StateBackendFactory}
import keystate.errors.LocalStorageException
import keystate.files.LocalFolder

/** The executor's disk fails: the error says so, the checkpoint stays, and it works once there is
  * room again. A folder that is missing stands for a disk that is full.
  */
class LocalStorageSuite extends AnyFunSuite with StoreFixture {
  private def withFolder(
      backends: StateBackendFactory = backends
  )(body: (VersionedStore, MemoryStorage, File) => Any): Unit = {
    val storage = new MemoryStorage
    val folder = Files.createTempDirectory("keystate-test").toFile
    val local = new LocalFolder(() => folder)
    val store = new VersionedStore(location, storage, StoreSettings(), backends, local)
    try body(store, storage, folder)
    finally store.close()
    assert(!folder.exists, "the local folder goes with the store")
    ()
  }

  private def put(store: VersionedStore): Unit = {
    register(store)
    change(store, "p", 1, "a", large(1))
  }

  /** RocksDB with its own files elsewhere; its runs are written by way of a local file. */
  private def rocksDB(elsewhere: LocalFolder) = new StateBackendFactory {
    private val factory = new RocksDBStateBackendFactory
    factory.configure(Map("memoryMB" -> "32"))
    override def configure(options: Map[String, String]): Unit = ()
    override def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend =
      factory.create(maxParallelism, () => elsewhere.newFolder())
  }

  test("a commit") {
    val elsewhere = newLocalFolder()
    try
      withFolder(rocksDB(elsewhere)) { (store, storage, folder) =>
        store.load(0, None)
        put(store)
        assert(folder.delete())
        val e = intercept[LocalStorageException](store.commit(None))
        assert(e.code == "KEYSTATE_LOCAL_STORAGE" && e.getMessage.contains(folder.getPath))
        assert(storage.paths.isEmpty, "there is no half version")
        assert(folder.mkdir())
        store.load(0, None)
        put(store)
        store.commit(None)
        assert(folder.list().isEmpty)
        withStore(storage) { other =>
          other.load(1, None)
          assert(content(other) == Map(("p", 1, "a") -> large(1)))
        }
      }
    finally elsewhere.close()
  }

  test("a small file is read without the disk") {
    val inFiles = StoreSettings(inlineBytes = 0)
    val storage = new MemoryStorage
    withStore(storage, inFiles) { store =>
      store.load(0, None)
      register(store)
      change(store, "p", 1, "a", "x")
      store.commit(None)
    }
    assert(storage.paths.exists(RunFiles.isSectioned), "the run has a file")
    val noDisk = new LocalFolder(() => fail("the local disk is used"))
    val store = new VersionedStore(location, storage, inFiles, backends, noDisk)
    try {
      store.load(1, None)
      assert(content(store) == Map(("p", 1, "a") -> "x"))
    } finally store.close()
  }

  test("a load") {
    withFolder() { (store, storage, folder) =>
      withStore(storage) { other =>
        other.load(0, None)
        put(other)
        other.commit(None)
      }
      // The folder is made, and then it is gone.
      store.load(1, None)
      assert(folder.delete())
      store.load(0, None)
      val e = intercept[LocalStorageException](store.load(1, None))
      assert(e.getMessage.contains(folder.getPath))
      assert(folder.mkdir())
      store.load(1, None)
      assert(content(store) == Map(("p", 1, "a") -> large(1)))
      assert(folder.list().isEmpty)
    }
  }
}
