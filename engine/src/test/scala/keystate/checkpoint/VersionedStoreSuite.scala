package keystate.checkpoint

import java.io.IOException

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.Layout
import keystate.errors.{
  CorruptFileException, KeyGroupsMismatchException, MaxParallelismMismatchException,
  MissingRunException, MissingVersionException, StateMismatchException, UnsupportedFormatException
}
import keystate.files.{CheckpointStorage, StoreLocation}
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import keystate.version.Manifest

class VersionedStoreSuite extends AnyFunSuite with StoreFixture {

  private def commitOne(
      storage: CheckpointStorage,
      version: Long,
      id: Option[String],
      newId: Option[String],
      key: String,
      value: String
  ): Manifest = withStore(storage) { store =>
    store.load(version, id)
    register(store)
    change(store, "p", 1, key, value)
    store.commit(newId)
  }

  private def read(storage: CheckpointStorage, version: Long, id: Option[String]): Content =
    withStore(storage) { store =>
      store.load(version, id)
      content(store)
    }

  for (format <- Seq("v1", "v2")) {
    def idOf(): Option[String] = if (format == "v2") newId() else None

    test(s"$format: small and large changes come back, in this store and another") {
      val storage = new MemoryStorage
      val (first, second) = (idOf(), idOf())
      val big = large(1)
      withStore(storage) { store =>
        store.load(0, None)
        register(store)
        change(store, "p", 0, "a", "1")
        change(store, "g", 127, "b", "2")
        change(store, "p", 5, "gone", "soon")
        assert(store.commit(first).version == 1)
        assert(storage.paths.size == 1, "a small commit is one file")

        change(store, "p", 0, "a", big)
        change(store, "p", 5, "gone", null)
        val manifest = store.commit(second)
        assert(storage.runs.size == 1)
        assert(manifest.baseId == first && manifest.id == second)
        assert(manifest.numKeys == 2)

        val expected = Map(("p", 0, "a") -> big, ("g", 127, "b") -> "2")
        assert(content(store) == expected)
        assert(read(storage, 2, second) == expected)
        assert(
          read(storage, 1, first) ==
            Map(("p", 0, "a") -> "1", ("g", 127, "b") -> "2", ("p", 5, "gone") -> "soon")
        )
      }
      assert(leftBehind.isEmpty)
    }

    test(s"$format: a batch with no changes makes a version") {
      val storage = new MemoryStorage
      val ids = Seq.fill(3)(idOf())
      withStore(storage) { store =>
        store.load(0, None)
        ids.foreach(store.commit)
      }
      assert(read(storage, 3, ids.last).isEmpty)
    }

    test(s"$format: the same version can be committed again by another attempt") {
      val storage = new MemoryStorage
      val (base, first, second, third) = (idOf(), idOf(), idOf(), idOf())
      commitOne(storage, 0, None, base, "base", "0")
      val (a, b) = (newStore(storage), newStore(storage))
      try {
        Seq(a, b).foreach { store =>
          store.load(1, base)
          change(store, "p", 1, "x", large(7))
        }
        a.commit(first)
        b.commit(second)
        val expected = Map(("p", 1, "base") -> "0", ("p", 1, "x") -> large(7))
        assert(read(storage, 2, first) == expected)
        assert(read(storage, 2, second) == expected)
        // Whichever attempt's store lives on, its next version is complete.
        change(a, "p", 1, "y", "1")
        a.commit(third)
        assert(read(storage, 3, third) == expected + (("p", 1, "y") -> "1"))
        // And the loser finds its way back.
        b.load(1, base)
        assert(content(b) == Map(("p", 1, "base") -> "0"))
      } finally Seq(a, b).foreach(_.close())
    }

    test(s"$format: whatever step of a commit fails, the version before is intact") {
      val storage = new MemoryStorage
      val base = idOf()
      commitOne(storage, 0, None, base, "a", large(1))
      var failures = 0
      var failed = true
      var step = 0
      while (failed) {
        step += 1
        val before = storage.paths.filter(_.endsWith(".keystate"))
        withStore(storage) { store =>
          store.load(1, base)
          change(store, "p", 1, "a", large(2))
          var calls = 0
          storage.before = (operation, path) => {
            calls += 1
            if (calls == step) throw new IOException(s"injected into $operation of $path")
          }
          failed =
            try {
              store.commit(idOf())
              false
            } catch { case _: IOException => true }
          storage.before = (_, _) => ()
          if (failed) {
            failures += 1
            assert(!store.isLoaded, "a store whose commit failed must read its files again")
            store.load(1, base)
            assert(content(store) == Map(("p", 1, "a") -> large(1)))
            if (format == "v2") assert(before.forall(storage.paths.contains))
            // The retry.
            change(store, "p", 1, "a", large(3))
            val retry = idOf()
            store.commit(retry)
            assert(read(storage, 2, retry) == Map(("p", 1, "a") -> large(3)))
          }
        }
      }
      assert(failures >= 8, "create, write, close and closed, of a run and of the version file")
      assert(leftBehind.isEmpty)
    }
  }

  test("v2: what a zombie writes late is not what was committed") {
    val storage = new MemoryStorage
    val (winner, zombie, next) = (newId(), newId(), newId())
    val late = newStore(storage)
    try {
      late.load(0, None)
      register(late)
      change(late, "p", 1, "x", "zombie")
      commitOne(storage, 0, None, winner, "x", "right")
      late.commit(zombie)
      assert(read(storage, 1, winner) == Map(("p", 1, "x") -> "right"))
      // A store that has the zombie's state does not take it for the committed version.
      late.load(1, winner)
      assert(content(late) == Map(("p", 1, "x") -> "right"))
      change(late, "p", 1, "y", "1")
      late.commit(next)
      assert(late.manifest.baseId == winner)
    } finally late.close()
  }

  test("a query goes from checkpoint format v1 to v2") {
    val storage = new MemoryStorage
    val id = newId()
    commitOne(storage, 0, None, None, "a", "1")
    commitOne(storage, 1, None, id, "b", "2")
    assert(read(storage, 2, id) == Map(("p", 1, "a") -> "1", ("p", 1, "b") -> "2"))
  }

  test("a version that is loaded is not read again, unless another is asked for") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      change(store, "p", 1, "a", "1")
      val id = newId()
      store.commit(id)
      storage.before = (operation, path) => fail(s"$operation of $path")
      store.load(1, id)
      change(store, "p", 1, "a", "2")
      store.rollback()
      store.load(1, id)
      assert(content(store) == Map(("p", 1, "a") -> "1"))
      storage.before = (_, _) => ()
      intercept[MissingVersionException](store.load(1, newId()))
      assert(!store.isLoaded)
    }
  }

  test("every damaged byte of a version file is noticed") {
    val storage = new MemoryStorage
    commitOne(storage, 0, None, None, "a", "1")
    val path = "3/1.keystate"
    val good = storage(path)
    good.indices.foreach { i =>
      storage.damage(path) { bytes =>
        bytes(i) = (bytes(i) ^ 4).toByte
        bytes
      }
      val e = intercept[CorruptFileException](read(storage, 1, None))
      assert(e.code == "KEYSTATE_CORRUPT_FILE")
      Seq("operator 0", "partition 3", "version 1", "memory:/3/1.keystate")
        .foreach(part => assert(e.getMessage.contains(part)))
      storage.damage(path)(_ => good.clone)
    }
    good.indices.foreach { length =>
      storage.damage(path)(_.take(length))
      intercept[CorruptFileException](read(storage, 1, None))
      storage.damage(path)(_ => good.clone)
    }
    assert(read(storage, 1, None).size == 1)
  }

  test("a damaged, cut or missing run is noticed, and named") {
    val storage = new MemoryStorage
    commitOne(storage, 0, None, None, "a", large(1))
    val path = storage.runs.head
    val good = storage(path)
    (0 until good.length by good.length / 50).foreach { i =>
      storage.damage(path) { bytes =>
        bytes(i) = (bytes(i) ^ 1).toByte
        bytes
      }
      val e = intercept[CorruptFileException](read(storage, 1, None))
      assert(e.getMessage.contains(path) && e.getMessage.contains("version 1"))
      storage.damage(path)(_ => good.clone)
    }
    storage.damage(path)(_.dropRight(1))
    intercept[CorruptFileException](read(storage, 1, None))
    storage.delete(path)
    val e = intercept[MissingRunException](read(storage, 1, None))
    assert(e.code == "KEYSTATE_MISSING_FILE" && e.getMessage.contains(path))
    assert(leftBehind.isEmpty)
  }

  for (format <- Seq(0, 2)) test(s"a file of format $format is refused as such") {
    val storage = new MemoryStorage
    commitOne(storage, 0, None, None, "a", "1")
    storage.damage("3/1.keystate") { bytes =>
      bytes(11) = format.toByte
      val crc = new java.util.zip.CRC32C
      crc.update(bytes, 0, bytes.length - 4)
      java.nio.ByteBuffer.wrap(bytes).putInt(bytes.length - 4, crc.getValue.toInt)
      bytes
    }
    val e = intercept[UnsupportedFormatException](read(storage, 1, None))
    assert(e.getMessage.contains(s"3/1.keystate has format $format"))
  }

  test("the bytes of a version file begin as documented") {
    val storage = new MemoryStorage
    commitOne(storage, 0, None, None, "a", "1")
    val file = storage("3/1.keystate")
    assert(new String(file.take(8)) == "KEYSTATE")
    assert(file.slice(8, 12).toSeq == Seq[Byte](0, 0, 0, 1))
    val json = java.nio.ByteBuffer.wrap(file).getInt(12)
    assert(
      // The backend `auto` writes what an entry takes on the heap.
      new String(file.slice(16, 16 + json), "UTF-8").replaceFirst(""""entryBytes":\d+,""", "") ==
        """{"version":1,"maxParallelism":128,"partition":3,"groups":[0,127],""" +
        """"nextFamilyId":2,"families":[{"id":0,"name":"p","layout":"point",""" +
        """"properties":{"kind":"value"},"entries":1,"groupEntries":[0,1""" + ",0" * 127 +
        """]},{"id":1,"name":"g","layout":"grouped",""" +
        """"properties":{"kind":"map"},"entries":0}],"runs":[{"entries":1,"bytes":15,"groups":[1,1],""" +
        """"crc32c":""" + storedCrc(file, 16 + json, 15) + ""","version":1}]}"""
    )
    // One entry: key length, family 0, group 1, "a", value length, put, "1".
    assert(
      file.slice(16 + json, file.length - 4).toSeq ==
        Seq[Byte](0, 0, 0, 5, 0, 0, 0, 1, 'a', 0, 0, 0, 2, 1, '1')
    )
  }

  private def storedCrc(file: Array[Byte], from: Int, length: Int): Long = {
    val crc = new java.util.zip.CRC32C
    crc.update(file, from, length)
    crc.getValue
  }

  test("the number of key groups is fixed") {
    val storage = new MemoryStorage
    withStore(storage, StoreSettings(maxParallelism = Some(64))) { store =>
      store.load(0, None)
      store.commit(None)
    }
    withStore(storage) { store =>
      store.load(1, None)
      assert(store.maxParallelism == 64, "the recorded number wins over the default")
    }
    val e = intercept[MaxParallelismMismatchException] {
      withStore(storage, StoreSettings(maxParallelism = Some(128)))(_.load(1, None))
    }
    assert(e.getMessage.contains("64") && e.getMessage.contains("128"))
    withStore(new MemoryStorage) { store =>
      store.load(0, None)
      assert(store.maxParallelism == KeyGroups.DefaultMaxParallelism)
    }
  }

  test("a partition that owns a range says so, and refuses another") {
    val storage = new MemoryStorage
    withStore(storage, StoreSettings(parallelism = Some(5))) { store =>
      store.load(0, None)
      assert(store.commit(None).partitioning.groups == KeyGroupRange(77, 102))
    }
    withStore(storage, StoreSettings(parallelism = Some(5)))(_.load(1, None))
    val e = intercept[KeyGroupsMismatchException] {
      withStore(storage, StoreSettings(parallelism = Some(4)))(_.load(1, None))
    }
    assert(e.getMessage.contains("77 to 102") && e.getMessage.contains("96 to 127"))
  }

  test("states: made with the commit, gone with a rollback, ids never reused, kinds fixed") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      assert(store.registerFamily("a", Layout.Point, Map("kind" -> "value")).id == 0)
      store.rollback()
      assert(store.family("a").isEmpty)
      register(store)
      change(store, "p", 1, "a", "1")
      store.commit(None)
      assert(store.dropFamily("p") && !store.dropFamily("p"))
      store.rollback()
      assert(content(store) == Map(("p", 1, "a") -> "1"))
      store.dropFamily("p")
      store.commit(None)
    }
    withStore(storage) { store =>
      store.load(2, None)
      val again = store.registerFamily("p", Layout.Point, Map("kind" -> "value", "more" -> "yes"))
      assert(again.id == 2, "the entries of the dropped state are still in the runs")
      assert(content(store).isEmpty)
      store.commit(None)
      assert(store.family("p").get.properties("more") == "yes")
      val kind = intercept[StateMismatchException] {
        store.registerFamily("g", Layout.Grouped, Map("kind" -> "list"))
      }
      assert(kind.getMessage.contains("'g'") && kind.getMessage.contains("list"))
      intercept[StateMismatchException](
        store.registerFamily("g", Layout.Point, Map("kind" -> "map"))
      )
    }
  }

  test("version files carry small runs only up to a limit") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      var model = Map.empty[(String, Int, String), String]
      (1 to 200).foreach { i =>
        change(store, "p", i % 128, s"$i", "v" * 1000)
        change(store, "p", (i - 5) & 127, s"${i - 5}", null)
        model = model + (("p", i % 128, s"$i") -> "v" * 1000)
        if (i > 5) model = model - (("p", (i - 5) & 127, s"${i - 5}"))
        store.commit(None)
        assert(storage(s"3/$i.keystate").length < 80 * 1024)
        if (i % 37 == 0) assert(read(storage, i.toLong, None) == model)
      }
      val files = storage.runs
      assert(files.nonEmpty && files.size < 10, s"${files.size} files for 200 commits")
      assert(read(storage, 200, None) == model)
    }
  }

  test("the changes of each version can be read") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      (1 to 100).foreach { i =>
        if (i % 10 != 0) change(store, "p", 1, "k", if (i == 50) large(3) else s"$i" * 500)
        change(store, "g", 1, "other", s"$i")
        store.commit(None)
        store.maintain()
      }
      (1 to 100).foreach { i =>
        val manifest = store.readManifest(i.toLong, None)
        val changes = store.readChanges(manifest, store.family("p").get)
        val values = changes.map(change => new String(change.value, "UTF-8"))
        assert(values == (if (i % 10 == 0) Nil else Seq(s"$i" * 500)), s"version $i")
      }
    }
  }

  test("stores in folders of their own") {
    val storage = new MemoryStorage
    val stores = Seq("left", "right").map { name =>
      newStore(storage, at = StoreLocation(0, 3, name))
    }
    try {
      stores.foreach { store =>
        store.load(0, None)
        register(store)
        change(store, "p", 0, "a", "1")
        store.commit(None)
      }
      assert(storage.paths == Seq("3/left/1.keystate", "3/right/1.keystate"))
    } finally stores.foreach(_.close())
  }
}
