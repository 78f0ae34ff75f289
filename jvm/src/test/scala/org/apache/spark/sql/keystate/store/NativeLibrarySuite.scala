package org.apache.spark.sql.keystate.store

import java.io.File
import java.nio.file.Files
import java.util.concurrent.TimeUnit.SECONDS

import scala.io.Source
import scala.jdk.CollectionConverters._

import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.StateBackendFactory
import keystate.backend.auto.AutoStateBackendFactory
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.checkpoint.{StoreFixture, StoreSettings}
import keystate.errors.NativeLibraryException
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** What both JVMs of the suite do. */
trait FolderStores extends StoreFixture {
  protected val settings: StoreSettings =
    StoreSettings(minVersionsToRetain = 2, minVersionsToDelete = 1)

  protected def storage(folder: String) =
    new SparkCheckpointStorage(new Path(folder), new Configuration(false))

  protected def fill(folder: String, versions: Range): Content =
    withStore(storage(folder), settings) { store =>
      store.load(versions.head.toLong - 1, None)
      register(store)
      versions.foreach { i =>
        change(store, "p", i % 128, s"$i", large(i.toLong))
        change(store, "g", i % 128, s"${i % 3}", if (i % 4 == 0) null else s"$i")
        store.commit(None)
        store.maintain()
      }
      assert(store.compactions > 0, "runs were merged")
      content(store)
    }

  protected def read(folder: String, version: Int): Content =
    withStore(storage(folder), settings) { store =>
      store.load(version.toLong, None)
      content(store)
    }

  protected def runs(folder: String): Seq[String] =
    new File(folder, "3").list().filter(_.matches(""".*\.(sst|lz4)""")).toSeq
}

/** Run in a JVM that cannot load the library; prints the errors it gets. */
object WithoutNativeLibrary extends FolderStores {
  private var backend: StateBackendFactory = super.backends
  override protected def backends: StateBackendFactory = backend

  /** No state fits on the heap, and it stays there. */
  private def useAuto(): Unit = {
    backend = new AutoStateBackendFactory
    backend.configure(Map("auto.heapShare" -> "1e-9"))
  }

  def main(args: Array[String]): Unit = {
    val (written, empty) = (args(0), args(1))
    // The second time too: RocksDB itself would wait for ever.
    (1 to 2).foreach { _ =>
      complain("backend") {
        val factory = new RocksDBStateBackendFactory
        factory.configure(Map.empty)
        factory.create(8, () => new File(s"$empty-backend"))
      }
    }
    complain("sst")(read(written, 20))
    val content = fill(empty, 1 to 20)
    assert(read(empty, 20) == content)
    useAuto()
    assert(fill(s"$empty-auto", 1 to 20) == content)
    println(s"content ${content.hashCode}")
  }

  private def complain(what: String)(body: => Any): Unit =
    try {
      body
      println(s"$what works")
    } catch { case e: NativeLibraryException => println(s"$what ${e.getMessage}") }
}

/** RocksDB's native library can't be loaded: the error says so, and the heap backend works. */
class NativeLibrarySuite extends AnyFunSuite with FolderStores {
  private var backend: StateBackendFactory = super.backends
  override protected def backends: StateBackendFactory = backend

  private def withFolder(body: File => Unit): Unit = {
    val folder = Files.createTempDirectory("keystate-test").toFile
    try body(folder)
    finally FileUtils.deleteDirectory(folder)
  }

  /** Lines that the other JVM prints. */
  private def run(option: Option[String], unpackTo: File, args: String*): Seq[String] = {
    val java = s"${System.getProperty("java.home")}/bin/java"
    val classPath = System.getProperty("java.class.path")
    val main = WithoutNativeLibrary.getClass.getName.stripSuffix("$")
    val builder = new ProcessBuilder(
      (Seq(java, "-Xmx512m", "-cp", classPath) ++ option ++ (main +: args)).asJava
    )
    builder.environment.put("ROCKSDB_SHAREDLIB_DIR", unpackTo.getPath)
    val errors = new File(unpackTo.getParentFile, "errors")
    builder.redirectError(errors)
    val process = builder.start()
    try {
      val lines = Source.fromInputStream(process.getInputStream).getLines().toVector
      assert(
        process.waitFor(60, SECONDS) && process.exitValue == 0,
        Source.fromFile(errors).mkString
      )
      lines
    } finally {
      process.destroyForcibly()
      ()
    }
  }

  private def check(option: Option[String], reason: String)(makeUnpackTo: File => Unit): Unit =
    withFolder { folder =>
      val (written, empty) = (s"$folder/written", s"$folder/empty")
      val rocksDB = new RocksDBStateBackendFactory
      rocksDB.configure(Map("memoryMB" -> "32"))
      backend = rocksDB
      val before = fill(written, 1 to 20)
      assert(runs(written).nonEmpty && runs(written).forall(_.endsWith(".sst")))

      val unpackTo = new File(folder, "unpack")
      makeUnpackTo(unpackTo)
      val lines = run(option, unpackTo, written, empty)
      val errors = lines.filter(_.contains("[KEYSTATE_NATIVE_LIBRARY]"))
      assert(errors.map(_.takeWhile(_ != ' ')) == Seq("backend", "backend", "sst"), lines)
      errors.foreach { error =>
        assert(error.contains("RocksDB's native library librocksdbjni") && error.contains(reason))
        Seq("ROCKSDB_SHAREDLIB_DIR", "java.io.tmpdir", "spark.keystate.backend to hashmap")
          .foreach(hint => assert(error.contains(hint)))
      }
      assert(read(written, 20) == before, "the checkpoint is as it was")

      assert(runs(empty).nonEmpty && runs(empty).forall(_.endsWith(".lz4")))
      assert(runs(empty).size < 16, "merged and cleaned up")
      // Back on a machine that can load it, either backend goes on from there.
      for ((factory, suffix) <- Seq(super.backends -> ".lz4", rocksDB -> ".sst")) {
        val copy = s"$folder/${factory.getClass.getSimpleName}"
        FileUtils.copyDirectory(new File(empty), new File(copy))
        backend = factory
        assert(lines.last == s"content ${read(copy, 20).hashCode}")
        val content = fill(copy, 21 to 40)
        assert(read(copy, 40) == content)
        assert(runs(copy).nonEmpty && runs(copy).forall(_.endsWith(suffix)), "those of before too")
      }
      backend = super.backends
      assert(leftBehind.isEmpty)
      ()
    }

  test("a folder that it can't be unpacked into") {
    check(None, "") { folder =>
      assert(folder.createNewFile())
      ()
    }
  }

  test("a machine that rocksdbjni does not fit") {
    check(Some("-Dos.arch=ppc64le"), "UnsatisfiedLinkError") { folder =>
      assert(folder.mkdir())
      ()
    }
  }
}
