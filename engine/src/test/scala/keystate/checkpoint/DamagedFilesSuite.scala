package keystate.checkpoint

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer

import scala.collection.mutable
import scala.util.Random

import net.jpountz.lz4.{LZ4FrameInputStream, LZ4FrameOutputStream}
import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.StateBackendFactory
import keystate.backend.heap.HeapStateBackendFactory
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.errors.{CheckpointException, CorruptFileException}
import keystate.faults.Fuzzing
import keystate.files.{Crc32c, StoreLocation}
import keystate.version.{
  EntryCounts, FileSource, Manifest, ManifestRules, Partitioning, VersionFile
}

/** Whatever is in the files of a store: it is read as what was written, or it is an error that names
  * the file; nothing hangs, takes memory without end or reads another file than those of the store.
  * Where checksums are made right after the damage, what is read may be anything that a writer could
  * have written.
  */
class DamagedFilesSuite extends AnyFunSuite with StoreFixture {

  /** A checkpoint in memory with two partitions of which the second has version 3, or what it was
    * made into.
    */
  private final class Checkpoint(backends: StateBackendFactory, settings: StoreSettings) {
    val storage = new MemoryStorage
    val at: StoreLocation = location.copy(partition = 1)
    val id: Option[String] = newId()

    {
      val store =
        new VersionedStore(at, storage, settings, backends, newLocalFolder())
      try {
        store.load(0, None)
        register(store)
        for (group <- 64 to 90; key <- 0 to 5) {
          change(store, "p", group, s"k$key", large(key.toLong, 1200))
          change(store, "g", group, s"m$key", large(key.toLong, 200))
        }
        store.commit(newId())
        change(store, "p", 64, "k1", "small")
        change(store, "g", 70, "m2", null)
        store.commit(newId())
        change(store, "p", 127, "k3", "smaller")
        store.commit(id)
      } finally store.close()
    }

    val file: String = VersionFile.path(at, 3, id)
    val versionFile: Array[Byte] = storage(file)
    val runFile: String = storage.runs.head
    val run: Array[Byte] = storage(runFile)
    val good: Content = read()
    private val opened = mutable.Set.empty[String]
    storage.before = (_, path) => synchronized { val _ = opened.add(path) }

    /** All that is read of a version, by every road. */
    def read(): Content = {
      val store = new VersionedStore(at, storage, settings, backends, newLocalFolder())
      val local = newLocalFolder()
      try {
        val reader = new StoreReader(at, storage, local)
        assert(reader.verify(3, id, mutable.Set.empty).forall(_.getMessage.contains("memory:/")))
        val manifest = reader.manifest(3, id, 2)
        manifest.families.foreach { family =>
          val entries = reader.entries(manifest, family)
          try entries.foreach(_ => ())
          finally entries.close()
        }
        store.load(3, id)
        try content(store)
        catch {
          // A state that is said to be of another kind: its entries are not what the fixture reads.
          case _: NoSuchElementException | _: IndexOutOfBoundsException => Map.empty
        }
      } finally {
        store.close()
        local.close()
      }
    }

    /** Whether it is an error with a name. */
    def isNamed(): Boolean =
      try {
        read()
        false
      } catch {
        case e: CheckpointException =>
          assert(e.getMessage.contains("memory:/"), e)
          true
      } finally assertInside()

    def assertInside(): Unit = synchronized {
      val outside = opened.filterNot(_.matches("[0-9]+(/[0-9A-Za-z_.-]+)?"))
      assert(outside.isEmpty)
      opened.clear()
    }

    def restore(): Unit = {
      storage(file) = versionFile
      storage(runFile) = run
    }
  }

  private val heap = new HeapStateBackendFactory
  private val rocksdb = new RocksDBStateBackendFactory
  rocksdb.configure(Map.empty)
  private val layout =
    StoreSettings(maxParallelism = Some(128), parallelism = Some(2), sectionBytes = 16 * 1024)

  private def fuzz(target: String, backends: StateBackendFactory)(
      body: (Checkpoint, Random) => Any
  ): Unit = test(target) {
    val checkpoint = new Checkpoint(backends, layout)
    Fuzzing.run(target, 64L << 20) { random =>
      try body(checkpoint, random)
      finally checkpoint.restore()
    }
    assert(checkpoint.read() == checkpoint.good)
  }

  private def jsonOf(file: Array[Byte]): Array[Byte] =
    file.slice(16, 16 + ByteBuffer.wrap(file).getInt(12))

  private def inlineOf(file: Array[Byte]): Array[Byte] =
    file.slice(16 + jsonOf(file).length, file.length - 4)

  /** A version file with right lengths and checksum. */
  private def sealedFile(json: Array[Byte], inline: Array[Byte]): Array[Byte] = {
    val bytes = ByteBuffer.allocate(20 + json.length + inline.length)
    bytes.put("KEYSTATE".getBytes).putInt(1).putInt(json.length).put(json).put(inline)
    bytes.putInt(Crc32c.of(bytes.array, 0, bytes.position())).array
  }

  /** The version with this in place of its run file, and the manifest saying so. */
  private def withRun(checkpoint: Checkpoint, content: Array[Byte]): Unit = {
    checkpoint.storage(checkpoint.runFile) = content
    val manifest = VersionFile.read(checkpoint.storage, checkpoint.at, 3, checkpoint.id)
    val changed = manifest.copy(runs = manifest.runs.map { run =>
      if (run.source != FileSource(checkpoint.runFile)) run
      else run.copy(bytes = content.length.toLong, crc32c = Crc32c.of(content))
    })
    val _ = VersionFile.write(checkpoint.storage, checkpoint.at, changed)
  }

  fuzz("damaged version files", heap) { (checkpoint, random) =>
    val damaged = Fuzzing.damage(random, checkpoint.versionFile)
    checkpoint.storage(checkpoint.file) = damaged
    assert(damaged.sameElements(checkpoint.versionFile) || checkpoint.isNamed())
  }

  for ((name, backends) <- Seq("heap" -> heap, "RocksDB" -> rocksdb)) {
    fuzz(s"version files with right checksums, $name", backends) { (checkpoint, random) =>
      val (json, inline) = (jsonOf(checkpoint.versionFile), inlineOf(checkpoint.versionFile))
      checkpoint.storage(checkpoint.file) = random.nextInt(4) match {
        case 0 => sealedFile(json, Fuzzing.damage(random, inline))
        case 1 => sealedFile(Fuzzing.damage(random, json), inline)
        case _ => sealedFile(Fuzzing.damageJson(random, json), inline)
      }
      checkpoint.isNamed()
    }

    fuzz(s"damaged run files, $name", backends) { (checkpoint, random) =>
      val damaged = Fuzzing.damage(random, checkpoint.run)
      checkpoint.storage(checkpoint.runFile) = damaged
      assert(damaged.sameElements(checkpoint.run) || checkpoint.isNamed())
    }

    fuzz(s"run files with right checksums, $name", backends) { (checkpoint, random) =>
      withRun(checkpoint, Fuzzing.damage(random, checkpoint.run))
      checkpoint.isNamed()
    }
  }

  fuzz("entries of run files with right checksums", heap) { (checkpoint, random) =>
    val plain =
      new LZ4FrameInputStream(new java.io.ByteArrayInputStream(checkpoint.run)).readAllBytes()
    val bytes = new ByteArrayOutputStream
    val out = new LZ4FrameOutputStream(bytes)
    out.write(Fuzzing.damage(random, plain))
    out.close()
    withRun(checkpoint, bytes.toByteArray)
    checkpoint.isNamed()
  }

  test("damaged files of sources") {
    val storage = new MemoryStorage
    val segments = new SourceSegments(storage)
    val name = SegmentName(3, newId().get)
    val chunks = Seq("first", "second", "").map(text => bytes(text * 50))
    segments.write(name, bytes("""{"batch":3,"states":[{"s":["a"]}]}"""), chunks)
    val good = storage(name.file)
    val head = good.length - chunks.map(_.length).sum - 4

    Fuzzing.run("files of sources", 8L << 20) { random =>
      val damaged =
        if (random.nextBoolean()) Fuzzing.damage(random, good)
        else {
          val crafted = Fuzzing.damage(random, good.take(head))
          val crc = ByteBuffer.allocate(4).putInt(Crc32c.of(crafted)).array
          crafted ++ crc ++ good.drop(head + 4)
        }
      storage(name.file) = damaged
      try segments.read(name).chunks.foreach(segments.rows)
      catch { case e: CheckpointException => assert(e.getMessage.contains(name.file)) }
    }
  }

  private val foreign = Seq(
    "../../../victim/file",
    "1/../../../victim",
    "/etc/passwd",
    "file:///etc/passwd",
    "1//etc/passwd",
    "1/other/3-0b0e1c54.lz4",
    "-1/3-0b0e1c54.lz4",
    "+1/3-0b0e1c54.lz4",
    "01/3-0b0e1c54.lz4",
    "1/3-0b0e1c54.lz4/",
    "1/3-..lz4",
    "1/3-a/../../b.lz4",
    "1/3-0b0e1c54.keystate",
    "1\\3-0b0e1c54.lz4",
    "1/3-0b0e\u0000.lz4",
    "http://host/1/3-0b0e1c54.lz4",
    ""
  )

  for (path <- foreign) test(s"a version can't have a run file at '$path'") {
    val checkpoint = new Checkpoint(heap, layout)
    val manifest = VersionFile.read(checkpoint.storage, checkpoint.at, 3, checkpoint.id)
    val crafted = manifest.copy(runs = manifest.runs.map { run =>
      run.source match {
        case FileSource(_) => run.copy(source = FileSource(path))
        case _ => run
      }
    })
    VersionFile.write(checkpoint.storage, checkpoint.at, crafted)
    assert(checkpoint.isNamed())
    val reader = new StoreReader(checkpoint.at, checkpoint.storage, newLocalFolder())
    assert(reader.verify(3, checkpoint.id, mutable.Set.empty).exists(_.getMessage.contains(path)))
    checkpoint.assertInside()
  }

  test("a store with a name of its own has its run files in its own folder") {
    assert(ManifestRules.isRunPath("12/left-keyToNumValues/3-0b0e1c54.sst", "left-keyToNumValues"))
    assert(!ManifestRules.isRunPath("12/3-0b0e1c54.sst", "left-keyToNumValues"))
    assert(!ManifestRules.isRunPath("12/right/3-0b0e1c54.sst", "left"))
  }

  for (id <- Seq("../../../victim", "a/b", "", "a.b", "x" * 200))
    test(s"a version can't have the id '$id'") {
      val checkpoint = new Checkpoint(heap, layout)
      val e = intercept[CheckpointException](
        VersionFile.read(checkpoint.storage, checkpoint.at, 3, Some(id))
      )
      assert(e.code == "KEYSTATE_CORRUPT_FILE" && e.getMessage.contains("commits/2"))
      checkpoint.assertInside()
    }

  private def of(change: Partitioning => Partitioning)(manifest: Manifest) =
    manifest.copy(partitioning = change(manifest.partitioning))

  private val wrong: Seq[(String, Manifest => Manifest)] = Seq(
    "another version" -> (_.copy(version = 4)),
    "another id" -> (_.copy(id = newId())),
    "no id" -> (_.copy(id = None)),
    "another partition" -> of(_.copy(partition = 0)),
    "other groups" -> of(p => p.copy(groups = p.groups.copy(first = 63))),
    "another layout" -> of(_.copy(parallelism = Some(3))),
    "no layout" -> of(_.copy(parallelism = None)),
    "no key groups" -> of(_.copy(maxParallelism = 0)),
    "too many key groups" -> of(_.copy(maxParallelism = 40000)),
    "a number of entries below 0" -> { m =>
      m.copy(entryCounts = m.entryCounts.map { case (family, counts) =>
        family -> EntryCounts(counts.byGroup.map(_ - 1))
      })
    },
    "a rescale in the future" -> of(_.copy(rescaledAt = Some(4))),
    "a state's number twice" -> (m => m.copy(families = m.families ++ m.families)),
    "a state's number that is not given yet" -> (_.copy(nextFamilyId = 1)),
    "a run's groups outside" ->
      (m => m.copy(runs = m.runs.map(r => r.copy(groups = r.groups.copy(last = 129))))),
    "a run of a later version" -> (m => m.copy(runs = m.runs.map(_.copy(version = 4)))),
    "a run of less than nothing" -> (m => m.copy(runs = m.runs.map(_.copy(entries = -1))))
  )

  for ((what, change) <- wrong) test(s"a version file that says of itself: $what") {
    val checkpoint = new Checkpoint(heap, layout)
    val manifest = VersionFile.read(checkpoint.storage, checkpoint.at, 3, checkpoint.id)
    val changed = change(manifest)
    VersionFile.write(checkpoint.storage, checkpoint.at, changed)
    val written = VersionFile.path(checkpoint.at, changed.version, VersionFile.nameOf(changed))
    checkpoint.storage(checkpoint.file) = checkpoint.storage(written)
    val e = intercept[CorruptFileException](checkpoint.read())
    assert(e.file == s"memory:/${checkpoint.file}")
  }
}
