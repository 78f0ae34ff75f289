package keystate.checkpoint

import java.io.{File, InputStream}
import java.nio.file.Files
import java.nio.file.attribute.FileTime

import scala.util.{Random, Success, Try}

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.CorruptFileException
import keystate.files.{
  AtomicOutputStream, CheckpointStorage, LocalFolder, StoreLocation, StoredFile
}
import keystate.version.FileSource

/** What RocksDB makes of run files when it takes them over. */
class RocksDBRestoreSuite extends AnyFunSuite with OnRocksDB {
  // Less than a large file's index and filter and some blocks.
  override protected def memoryMB: Int = 1

  override protected val location: StoreLocation = StoreLocation(0, 0, StoreLocation.DefaultStore)
  private val settings = StoreSettings(Some(8), Some(1))
  // More than a run that is written entry by entry has.
  private def many(value: Long) = (0 until 40).map(i => s"key $i" -> large(value * 100 + i, 20000))

  private def commit(store: VersionedStore, entries: Seq[(String, String)], group: Int): Unit = {
    entries.foreach { case (key, value) => change(store, "p", group, key, value) }
    store.commit(None)
    ()
  }

  test("of files with the same keys that are taken over at once the newest counts") {
    val storage = new MemoryStorage
    val versions = (1 to 3).map(v => many(v.toLong).drop(v))
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      versions.foreach(commit(store, _, 3))
    }
    withStore(storage, settings) { store =>
      store.load(3, None)
      assert(store.manifest.runs.count(_.source.isInstanceOf[FileSource]) == 3)
      val expected = versions.flatten.toMap.map { case (key, value) => ("p", 3, key) -> value }
      assert(content(store) == expected)
    }
  }

  test("a large commit is seen in all parts of a store whose groups are cut") {
    val storage = new MemoryStorage
    val operatorGroup = 8
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      change(store, "p", operatorGroup, "rule", "old")
      change(store, "p", 6, "other partition", "1")
      commit(store, many(1), 0)
    }
    val local = newLocalFolder()
    try Rescaling.run(storage, 0, location.store, 1, Seq(None), 2, () => "", local)
    finally local.close()
    withStore(storage, settings.copy(parallelism = Some(2))) { store =>
      store.load(1, None)
      register(store)
      change(store, "p", operatorGroup, "rule", "new")
      commit(store, many(2), 0)
      val id = store.family("p").get.id
      val rule = store.backend.get(id, operatorGroup, entryKey("p", "rule"))
      assert(new String(rule, "UTF-8") == "new")
      val expected = many(2).toMap.map { case (key, value) => ("p", 0, key) -> value }
      assert(content(store) == expected)
    }
  }

  /** Gives run files a name in a folder, as a checkpoint on a local disk does. */
  private final class Linked(memory: MemoryStorage, folder: File) extends CheckpointStorage {
    def onDisk(path: String): File = new File(folder, path.replace('/', '_'))

    override def link(path: String, file: File): Boolean = {
      if (!onDisk(path).exists) Files.write(onDisk(path).toPath, memory(path))
      LocalFolder.link(onDisk(path).toPath, file.toPath)
    }
    override def open(path: String, offset: Long): InputStream = memory.open(path, offset)
    override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream =
      memory.createAtomic(path, mustBeNew)
    override def list(folder: String): Seq[StoredFile] = memory.list(folder)
    override def folders(): Seq[String] = memory.folders()
    override def exists(path: String): Boolean = memory.exists(path)
    override def delete(path: String): Unit = memory.delete(path)
    override def describe(path: String): String = memory.describe(path)
  }

  test("a file that this process has written is not read whole, unless it was changed since") {
    val folder = Files.createTempDirectory("keystate-test").toFile
    val memory = new MemoryStorage
    val storage = new Linked(memory, folder)
    val entries = (0 until 80).map(i => s"key $i" -> large(i.toLong, 40000))
    try {
      withStore(storage, settings) { store =>
        store.load(0, None)
        register(store)
        commit(store, entries, 3)
      }
      assert(memory.runs.size == 1)
      val file = storage.onDisk(memory.runs.head)
      assert(file.length > (1 << 20))
      // As a broken disk would: the time of the last change stays.
      val time = Files.getLastModifiedTime(file.toPath)
      val bytes = Files.readAllBytes(file.toPath)
      bytes(bytes.length / 2) = (bytes(bytes.length / 2) ^ 1).toByte
      Files.write(file.toPath, bytes)
      Files.setLastModifiedTime(file.toPath, time)
      withStore(storage, settings) { store =>
        store.load(1, None)
        val id = store.family("p").get.id
        val found = entries.map { case (key, value) =>
          Try(store.backend.get(id, 3, entryKey("p", key))).map(new String(_, "UTF-8") == value)
        }
        assert(found.exists(_.isFailure), "RocksDB checks what it reads")
        assert(!found.contains(Success(false)), "nothing wrong is found")
      }
      Files.setLastModifiedTime(file.toPath, FileTime.fromMillis(time.toMillis + 1))
      withStore(storage, settings) { store =>
        val e = intercept[CorruptFileException](store.load(1, None))
        assert(e.getMessage.contains("its checksum is wrong"))
      }
    } finally {
      folder.listFiles.foreach(_.delete())
      folder.delete()
      ()
    }
  }

  test("lookups where a file's index and filter do not stay in memory") {
    val storage = new MemoryStorage
    val keys = (0 until 20000).map(i => f"$i%06d")
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      commit(store, keys.map(key => key -> large(key.toLong, 30)), 3)
    }
    def lookUpIn(store: VersionedStore): Unit = {
      store.load(1, None)
      val id = store.family("p").get.id
      def lookUp(key: String) =
        Option(store.backend.get(id, 3, entryKey("p", key))).map(new String(_, "UTF-8"))
      val random = new Random(1)
      (0 until 2000).foreach { _ =>
        val key = keys(random.nextInt(keys.size))
        assert(lookUp(s"$key not there").isEmpty)
        assert(lookUp(key).contains(large(key.toLong, 30)))
      }
    }
    // The memory is full of the write buffers of others.
    val others = Seq.fill(4)(newStore(new MemoryStorage, settings))
    try {
      others.foreach { other =>
        other.load(0, None)
        register(other)
        commit(other, many(1).take(20), 3)
      }
      withStore(storage, settings)(lookUpIn)
    } finally others.foreach(_.close())
  }
}
