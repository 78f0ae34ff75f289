package keystate.checkpoint

import java.io.IOException

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.Layout
import keystate.errors.{CorruptFileException, MissingVersionException}
import keystate.keygroup.KeyGroupRange
import keystate.version.{FileSource, Run, VersionFile}

class MaintenanceSuite extends AnyFunSuite with StoreFixture {
  private val settings = StoreSettings(minVersionsToRetain = 10, minVersionsToDelete = 3)

  private def commits(store: VersionedStore, versions: Range)(
      changes: Int => Any
  ): Map[Long, Content] = versions.map { i =>
    changes(i)
    store.commit(None)
    store.maintain()
    i.toLong -> content(store)
  }.toMap

  test("retained versions load, older ones go, and the number of files stays small") {
    val storage = new MemoryStorage
    val stray = Seq("3/_SUCCESS", "3/.1.keystate.crc", "3/notes~", "3/x.keystate", "3/1.delta")
    stray.foreach(storage(_) = Array[Byte](1))
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      val history = commits(store, 1 to 120) { i =>
        change(store, "p", i % 7, s"${i % 20}", if (i % 3 == 0) large(i.toLong) else s"$i")
        change(store, "g", 3, s"${i % 50}", if (i % 2 == 0) null else s"$i")
        assert(storage.paths.size < 60, s"version $i: ${storage.paths}")
      }
      assert(store.compactions > 5)
      assert(store.manifest.runs.size < 16)
      (110L to 120).foreach { version =>
        withStore(storage) { reader =>
          reader.load(version, None)
          assert(content(reader) == history(version), s"version $version")
        }
      }
      withStore(storage) { reader =>
        intercept[MissingVersionException](reader.load(100, None))
      }
    }
    assert(stray.forall(storage.paths.contains), "files of others are not ours to delete")
    assert(leftBehind.isEmpty)
  }

  test("files of failed attempts go once they are older than all that is retained") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      val manifest = store.commit(None)
      VersionFile.write(storage, location, manifest.copy(version = 5, id = Some("zombie")))
      val left =
        Seq(
          "1-orphan.sst",
          "1-orphan.lz4",
          "5_zombie.keystate",
          ".2.keystate.0a1b.tmp",
          ".2-run.sst.0a1b.tmp",
          ".2-some.pin.0a1b.tmp"
        )
          .map(name => s"3/$name")
      left.filterNot(storage.exists).foreach(storage(_) = Array[Byte](1))
      commits(store, 2 to 10)(i => change(store, "p", 0, "a", s"$i"))
      assert(left.forall(storage.exists))
      commits(store, 11 to 30)(i => change(store, "p", 0, "a", s"$i"))
      assert(!left.exists(storage.exists))
    }
  }

  test("what was removed goes from all files once it is to go") {
    val storage = new MemoryStorage
    def has(text: String) = storage.paths.exists { path =>
      new String(storage(path), "ISO-8859-1").contains(text)
    }
    val few = StoreSettings(minVersionsToRetain = 2, minVersionsToDelete = 1, inlineBytes = 1000)
    withStore(storage, few) { store =>
      store.load(0, None)
      register(store)
      def commit(i: Int): Unit = {
        change(store, "p", 1, s"other-${i % 3}", large(i.toLong, 1500))
        store.commit(None)
        store.maintain()
      }
      // In a run so large that it is not merged with small ones.
      (1 to 100).foreach(i => change(store, "p", 1, s"base-$i", large(i.toLong, 5000)))
      change(store, "p", 1, "secret", "1")
      (1 to 9).foreach(commit)
      change(store, "p", 1, "secret", null)
      (10 to 30).foreach(commit)
      assert(has("secret"), "as long as nobody asks, an old file or a removal has it")
      assert(!store.isRidOf(10))
      val before = content(store)
      store.getRidOf(10)
      (31 to 37).foreach(commit)
      assert(store.isRidOf(10) && store.manifest.mergedAt.exists(_ >= 30), store.manifest)
      assert(!has("secret"))
      assert(content(store).keySet == before.keySet)
      val merges = store.compactions
      val at = store.manifest.mergedAt
      commit(38)
      commit(39)
      assert(store.manifest.mergedAt == at && store.compactions - merges <= 1, "once is enough")
    }
    // Also where nothing of the merge is in memory any more.
    withStore(storage, few) { store =>
      store.load(39, None)
      assert(store.isRidOf(10) && !store.isRidOf(40))
    }
  }

  test("v1: a late commit finds what was merged during the commit before it") {
    val storage = new MemoryStorage
    val settings = StoreSettings(minVersionsToRetain = 1, minVersionsToDelete = 1)
    def during(path: String)(what: => Unit): Unit = storage.before = (operation, at) =>
      if (operation == "create" && at == path) {
        storage.before = (_, _) => ()
        what
      }
    def put(store: VersionedStore)(i: Int): Unit = change(store, "p", i, "a", large(i.toLong))
    withStore(storage, settings) { zombie =>
      zombie.load(0, None)
      register(zombie)
      (1 to 5).foreach { i =>
        put(zombie)(i)
        zombie.commit(None)
      }
      val before = storage.runs.toSet
      during("3/6.keystate")(zombie.maintain())
      put(zombie)(6)
      zombie.commit(None)
      assert(storage.runs.toSet.diff(before).size == 2, "that of the version and the merged one")
      put(zombie)(7)
      during("3/7.keystate") {
        withStore(storage, settings) { successor =>
          successor.load(6, None)
          commits(successor, 7 to 8)(put(successor))
          ()
        }
      }
      zombie.commit(None)
      assert(zombie.compactions == 1)
    }
    // Version 8 may be of a batch that is not committed; then the query goes on from 7.
    withStore(storage) { reader =>
      reader.load(7, None)
      assert(content(reader).size == 7)
    }
  }

  test("no run is deleted while a retained version file cannot be read") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      storage("3/1-orphan.sst") = Array[Byte](1)
      (1 to 30).foreach { i =>
        change(store, "p", 0, "a", s"$i")
        store.commit(None)
      }
      storage.damage("3/28.keystate")(_.dropRight(1))
      intercept[CorruptFileException](store.maintain())
      assert(storage.exists("3/1-orphan.sst"))
    }
  }

  test("a merge keeps the newest of each entry, and what was removed does not come back") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      change(store, "p", 0, "oldest", "1")
      change(store, "p", 1, "removed", "1")
      change(store, "p", 2, "filler", large(0, 5000000))
      store.commit(None)
      (1 to 6).foreach { i =>
        change(store, "p", 0, "newest", s"$i")
        change(store, "p", 1, "removed", if (i < 5) s"$i" else null)
        change(store, "p", 2, "filler 2", large(i.toLong))
        store.commit(None)
      }
      val before = content(store)
      assert(store.manifest.runs.size == 7)
      store.maintain()
      assert(store.compactions == 0, "the merge waits for a commit")
      change(store, "p", 9, "z", "1")
      store.commit(None)
      assert(store.compactions == 1)
      assert(store.manifest.runs.size == 3, "the large run, the merged one, the newest")
      withStore(storage) { reader =>
        reader.load(8, None)
        assert(content(reader) == before + (("p", 9, "z") -> "1"))
      }
    }
  }

  /** A store with enough runs of one entry to be merged. */
  private def withSixRuns(storage: MemoryStorage)(body: VersionedStore => Any): Unit =
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      (1 to 6).foreach { i =>
        change(store, "p", 0, "a", large(i.toLong))
        store.commit(None)
      }
      body(store): Unit
    }

  test("a merge that fails or is cancelled leaves the store as it was") {
    val storage = new MemoryStorage
    withSixRuns(storage) { store =>
      val files = storage.paths
      storage.before = (operation, path) =>
        if (operation == "close" && storage.isRun(path)) throw new IOException("injected")
      intercept[IOException](store.maintain())
      assert(storage.paths == files)
      var opened = 0
      storage.before = (operation, path) =>
        if (operation == "open" && storage.isRun(path)) {
          opened += 1
          if (opened == 3) store.cancelMaintenance()
        }
      store.maintain()
      assert(opened == 3, "cancelled in the middle")
      assert(storage.paths == files)
      storage.before = (_, _) => ()
      store.commit(None)
      assert(store.manifest.runs.size == 6)
      assert(content(store) == Map(("p", 0, "a") -> large(6)))
    }
    assert(leftBehind.isEmpty)
  }

  test("a merge ends with its store, wherever it is") {
    for (step <- Seq("create", "write", "close")) withClue(step) {
      val storage = new MemoryStorage
      withSixRuns(storage) { store =>
        var closed = false
        storage.before = (operation, path) =>
          if (operation == step && storage.isRun(path) && !closed) {
            closed = true
            store.close()
          }
        store.maintain()
        assert(closed)
      }
    }
    assert(leftBehind.isEmpty)
  }

  test("a merge that was made without a state is not used once the state has entries again") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      change(store, "g", 0, "kept", "1")
      (1 to 6).foreach { i =>
        change(store, "p", 0, "a", large(i.toLong))
        store.commit(None)
      }
      store.dropFamily("g")
      store.commit(None)
      store.maintain()
      // The batch that dropped the state is done again, and does not drop it.
      store.load(6, None)
      store.commit(None)
      withStore(storage) { reader =>
        reader.load(7, None)
        assert(content(reader) == Map(("g", 0, "kept") -> "1", ("p", 0, "a") -> large(6)))
      }
    }
  }

  test("commits and maintenance at the same time") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      @volatile var done = false
      @volatile var failure: Throwable = null
      val maintenance = new Thread(() =>
        try while (!done) store.maintain()
        catch { case e: Throwable => failure = e }
      )
      maintenance.start()
      try
        (1 to 150).foreach { i =>
          change(store, "p", i % 128, s"${i % 30}", large(i.toLong, 70000))
          store.registerFamily(s"other $i", Layout.Ordered, Map.empty)
          store.commit(None)
        }
      finally {
        done = true
        maintenance.join()
      }
      if (failure != null) throw failure
      assert(store.manifest.version == 150)
      val expected = content(store)
      withStore(storage) { reader =>
        reader.load(150, None)
        assert(content(reader) == expected)
      }
    }
  }

  test("which runs are merged") {
    def of(runs: (Long, Long)*): (Int, Int) =
      RunCompaction.choose(runs.map { case (entries, bytes) =>
        Run(FileSource(s"$entries"), entries, bytes, KeyGroupRange(0, 0), 0, 1, None)
      })
    def choose(entries: Long*): (Int, Int) = of(entries.map(n => n -> 20 * n): _*)
    assert(choose() == ((0, 0)))
    assert(choose(1, 1, 1) == ((0, 0)), "too few")
    assert(choose(1, 1, 1, 1) == ((0, 4)))
    assert(choose(100, 1, 1, 1, 1) == ((1, 5)), "not the large one for so little")
    assert(choose(6, 1, 1, 1, 1) == ((0, 5)))
    assert(choose(7, 1, 1, 1, 1) == ((1, 5)))
    val packed = 10L
    assert(of(7L -> 7 * packed, 1L -> 20L, 1L -> 20L, 1L -> 20L, 1L -> 20L) == ((1, 5)))
    assert(of(1L -> 1000L, 1L -> 20L, 1L -> 20L, 1L -> 20L, 1L -> 20L) == ((1, 5)), "large entries")
    assert(choose(1000, 100, 10, 1) == ((0, 0)))
    assert(choose(10, 10, 10, 10, 1) == ((0, 4)), "the newest is too small to drag in the others")
  }

  test("each entry is written again a few times only, and there are few runs") {
    // Commits of as many new entries each, which take 20 bytes, and 10 after a merge.
    val commits = 200
    val (runs, rewritten, most) = (1 to commits).foldLeft((Vector.empty[Run], 0L, 0)) {
      case ((runs, rewritten, most), version) =>
        def run(entries: Long, bytes: Long) =
          Run(FileSource(s"$version"), entries, bytes, KeyGroupRange(0, 0), 0, 1, None)
        val more = runs :+ run(1000L + version % 7, 20000)
        val (from, until) = RunCompaction.choose(more)
        if (from == until) (more, rewritten, Math.max(most, more.size))
        else {
          val entries = more.slice(from, until).map(_.entries).sum
          val merged = more.patch(from, Seq(run(entries, 10 * entries)), until - from)
          (merged, rewritten + entries, Math.max(most, more.size))
        }
    }
    val entries = runs.map(_.entries).sum
    assert(rewritten.toDouble / entries < 3.5)
    assert(most <= 10)
  }
}
