package keystate.backend.rocksdb

import java.io.File
import java.nio.file.StandardWatchEventKinds.ENTRY_CREATE
import java.nio.file.{FileSystems, Files}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.rocksdb.RocksDBException
import org.scalatest.BeforeAndAfterEach
import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import keystate.backend.{
  Change, KeyedStateBackend, KeyedStateBackendSuite, RestoresFromFiles, RunFile
}
import keystate.errors.{ErrorCode, KeystateException, LocalStorageException}
import keystate.keygroup.KeyGroupRange
import keystate.version.SstFiles

class EmbeddedRocksDBStateBackendSuite
    extends KeyedStateBackendSuite
    with BeforeAndAfterEach
    with Eventually {
  implicit override def patienceConfig: PatienceConfig =
    PatienceConfig(Span(20, Seconds), Span(20, Millis))

  private val folders = mutable.Buffer.empty[File]

  private def factory(options: (String, String)*) = {
    val factory = new RocksDBStateBackendFactory
    factory.configure(options.toMap)
    factory
  }

  private val KnownToTrim = Runtime.Version.parse("17.0.15")

  private def threads(name: String): Int =
    Thread.getAllStackTraces.keySet.asScala.count(_.getName == name)

  private def newFolder(): File = {
    val folder = Files.createTempDirectory("keystate-test").toFile
    folders += folder
    folder
  }

  override protected def newBackend(maxParallelism: Int): KeyedStateBackend =
    factory("memoryMB" -> "16").create(maxParallelism, () => newFolder())

  override protected def afterEach(): Unit = {
    assert(folders.filter(_.exists).isEmpty, "a folder was left behind")
    assert(!SharedMemory.isInUse, "a database was not closed")
    ()
  }

  test("memory is shared by the stores of a JVM, and goes with the last one") {
    val (a, b) = (newBackend(8), newBackend(8))
    assert(SharedMemory.isInUse)
    a.close()
    a.close()
    assert(SharedMemory.isInUse)
    b.close()
    assert(!SharedMemory.isInUse)
  }

  test("what native memory is free goes back to the operating system while there is a store") {
    val (a, b) = (newBackend(8), newBackend(8))
    try {
      // That of the stores before may still be on its way out.
      eventually(assert(threads("keystate-native-trim") == 1))
      a.close()
      assert(threads("keystate-native-trim") == 1)
    } finally Seq(a, b).foreach(_.close())
    eventually(assert(threads("keystate-native-trim") == 0))
    assume(Runtime.version.compareTo(KnownToTrim) >= 0)
    assert(NativeTrim.trim().startsWith("Trim native heap"))
  }

  test("a close writes nothing") {
    val backend = newBackend(8)
    backend.register(point)
    (0 until 1000).foreach(i => backend.put(point.id, 0, bytes(s"$i"), new Array[Byte](1000)))
    backend.changesCommitted()
    val watch = FileSystems.getDefault.newWatchService()
    try {
      folders.last.toPath.register(watch, ENTRY_CREATE)
      backend.close()
      val made = Option(watch.poll()).toSeq.flatMap(_.pollEvents.asScala).map(e => s"${e.context}")
      assert(made.filter(_.endsWith(".sst")) == Nil)
    } finally watch.close()
  }

  test("a commit does not wait until what was loaded is compacted") {
    val files = 50
    val groups = KeyGroupRange(0, 7)
    // Each has keys between those of all others.
    val runs = (0 until files).map { n =>
      val random = new Random(n)
      val changes = (0 until 2000).map { i =>
        Change(point.id, 0, bytes(f"$i%05d $n%02d"), random.nextBytes(500))
      }
      val file = Files.createTempFile("keystate-test", ".sst").toFile
      SstFiles.write(file, _.addAll(changes.iterator), SstFiles.QuickToRead)
      RunFile(file, groups, isWhole = true)
    }
    val backend = newBackend(8).asInstanceOf[KeyedStateBackend with RestoresFromFiles]
    try {
      backend.register(point)
      backend.restore(runs, groups, (_, group) => if (group == 0) files * 2000L else 0L)
      backend.put(point.id, 1, bytes("new"), bytes("1"))
      backend.changesCommitted()
      val left = folders.last.list.count(_.endsWith(".sst"))
      assert(left >= files, "it waited")
      assert(backend.count(point.id, 0) == files * 2000)
    } finally backend.close()
  }

  test("a backend that can't be opened leaves nothing") {
    val file = Files.createTempFile("keystate-test", "").toFile
    val backend = factory().create(8, () => file)
    backend.register(point)
    val e = intercept[LocalStorageException](backend.get(point.id, 0, bytes("a")))
    assert(e.getMessage.contains(file.getPath) && e.getMessage.contains("hashmap"))
    backend.close()
    assert(!SharedMemory.isInUse)
  }

  test("what RocksDB can't store, also in the background, is an error that names its folder") {
    val folder = newFolder()
    val backend = factory("memoryMB" -> "4").create(8, () => folder)
    backend.register(point)
    assert(backend.get(point.id, 0, bytes("a")) == null)
    // A folder that is gone stands for a disk that is full.
    folder.listFiles.foreach(_.delete())
    assert(folder.delete())
    val e = intercept[LocalStorageException] {
      for (n <- 0 until 200) {
        val value = new Array[Byte](200 << 10)
        new Random(n).nextBytes(value)
        backend.put(point.id, 0, bytes(s"$n"), value)
        backend.changesCommitted()
      }
    }
    assert(e.getMessage.contains(folder.getPath) && e.code == "KEYSTATE_LOCAL_STORAGE")
    backend.close()
  }

  test("of many keys, one whose block can't be read is an error and not absent") {
    val folder = newFolder()
    val backend = factory("memoryMB" -> "4").create(8, () => folder)
    backend.register(point)
    val keys = Array.tabulate(10000)(n => bytes(f"$n%06d"))
    val random = new Random(7)
    keys.grouped(2000).foreach { some =>
      some.foreach { key =>
        val value = new Array[Byte](4000)
        random.nextBytes(value)
        backend.put(point.id, 0, key, value)
      }
      backend.changesCommitted()
    }
    val files = folder.listFiles.filter(_.getName.endsWith(".sst"))
    assert(files.nonEmpty, "all is in memory: nothing can be damaged")
    files.foreach(file => Files.write(file.toPath, new Array[Byte](file.length.toInt)))
    val values = new Array[Array[Byte]](keys.length)
    try
      intercept[RocksDBException] {
        backend.multiGet(point.id, new Array[Int](keys.length), keys, values, keys.length)
      }
    finally backend.close()
  }

  test("nothing of a closed backend can be used, and open scans are closed with it") {
    val backend = newBackend(8)
    backend.register(ordered)
    (0 until 100).foreach(i => backend.put(ordered.id, 0, bytes(f"$i%03d"), bytes("x")))
    backend.changesCommitted()
    val scan = backend.scan(ordered.id, 0, null, null)
    scan.next()
    backend.close()
    intercept[IllegalStateException](scan.next())
    scan.close()
    intercept[IllegalStateException](backend.get(ordered.id, 0, bytes("000")))
  }

  test("a scan sees the entries that were there before a commit, the next one those after") {
    withBackend { backend =>
      (0 until 100).foreach(i => backend.put(ordered.id, 0, bytes(f"$i%03d"), bytes("old")))
      backend.changesCommitted()
      val before = backend.scan(ordered.id, 0, null, null)
      assert(before.next().value.sameElements(bytes("old")))
      (0 until 100).foreach(i => backend.put(ordered.id, 0, bytes(f"$i%03d"), bytes("new")))
      backend.changesCommitted()
      assert(all(before).size == 99)
      assert(all(backend.scan(ordered.id, 0, null, null)).map(_._2).distinct == Seq("new"))
      backend.remove(ordered.id, 0, bytes("000"))
      backend.changesCommitted()
      assert(all(backend.scan(ordered.id, 0, null, null)).size == 99)
    }
  }

  test("keys and values of any length") {
    withBackend { backend =>
      val random = new scala.util.Random(1)
      val entries = Seq(0, 1, 500, 513, 5000, 2000000).map { n =>
        (random.nextBytes(n + 4), random.nextBytes(n))
      }
      entries.foreach { case (key, value) => backend.put(ordered.id, 1, key, value) }
      backend.changesCommitted()
      entries.foreach { case (key, value) =>
        assert(backend.get(ordered.id, 1, key).sameElements(value))
        // After a lookup that found nothing the database is asked in another way.
        assert(backend.get(ordered.id, 1, key :+ 0.toByte) == null)
        assert(backend.get(ordered.id, 1, key).sameElements(value))
        assert(backend.get(ordered.id, 1, key :+ 0.toByte) == null)
        backend.put(ordered.id, 1, key, value)
      }
      assert(backend.count(ordered.id, 1) == entries.size)
      assert(all(backend.scan(ordered.id, 1, null, null)).size == entries.size)
      assert(all(backend.scanReverse(ordered.id, 1, null, null)).size == entries.size)
    }
  }

  test("the last possible group and family") {
    val backend = newBackend(32768)
    try {
      val last = ordered.copy(id = 0xffff)
      backend.register(last)
      backend.put(last.id, 32767, bytes("a"), bytes("1"))
      backend.put(last.id, 0xffff, bytes("b"), bytes("2"))
      backend.changesCommitted()
      assert(all(backend.scanReverse(last.id, 32767, null, null)).map(_._2) == Seq("1"))
      assert(all(backend.scanReverse(last.id, 0xffff, null, null)).map(_._2) == Seq("2"))
      backend.drop(last.id)
      backend.changesCommitted()
      backend.register(last)
      assert(all(backend.scan(last.id, 0xffff, null, null)).isEmpty)
    } finally backend.close()
  }

  test("all predefined options make a working backend") {
    PredefinedOptions.all.foreach { predefined =>
      val backend =
        factory("predefinedOptions" -> predefined.name).create(8, () => newFolder())
      try {
        backend.register(point)
        backend.put(point.id, 0, bytes("a"), bytes("1"))
        backend.changesCommitted()
        assert(get(backend, point, 0, bytes("a")).contains("1"))
      } finally backend.close()
    }
  }

  test("bad options are named") {
    Seq(
      "predefinedOptions" -> "FLOPPY",
      "memoryMB" -> "0",
      "memoryMB" -> "much",
      "writeBufferRatio" -> "1.5",
      "memroyMB" -> "1"
    ).foreach { option =>
      val e = intercept[KeystateException](factory(option))
      assert(e.errorCode == ErrorCode.BadSetting)
      assert(e.getMessage.contains(s"spark.keystate.rocksdb.${option._1}"))
    }
  }
}
