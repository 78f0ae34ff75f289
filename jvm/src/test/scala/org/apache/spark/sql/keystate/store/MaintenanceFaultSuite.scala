package org.apache.spark.sql.keystate.store

import java.io.FileNotFoundException

import org.scalatest.funsuite.AnyFunSuite

import keystate.checkpoint.{OnRocksDB, StoreSettings, VersionedStore}
import keystate.errors.MissingRunException

/** Stores of one partition on several executors, of which some have not heard that they lost it. */
class MaintenanceFaultSuite extends AnyFunSuite with FaultyStores {

  for (format <- Seq("v1", "v2")) {
    def idOf(): Option[String] = if (format == "v2") newId() else None

    /** Commits that each write a file. */
    def commits(store: VersionedStore, versions: Range): Option[String] = {
      var id = Option.empty[String]
      versions.foreach { i =>
        change(store, "p", i % 7, s"$i", large(i.toLong))
        id = idOf()
        store.commit(id)
      }
      id
    }

    def expected(versions: Range): Content =
      versions.map(i => ("p", i % 7, s"$i") -> large(i.toLong)).toMap

    test(s"$format: what an executor merged is not used once it had lost the partition") {
      val at = new Faulty()
      val settings = StoreSettings(minVersionsToRetain = 2, minVersionsToDelete = 1)
      val (a, b) = (newStore(at.storage, settings), newStore(at.storage, settings))
      try {
        a.load(0, None)
        register(a)
        var id = commits(a, 1 to 6)
        val before = at.files("3").toSet
        a.maintain()
        val merged = at.files("3").toSet -- before
        assert(merged.size == 1, "the merge that waits for a commit")
        b.load(6, id)
        // Large, so that the runs before them are not merged.
        (7 to 12).foreach { i =>
          change(b, "p", 0, s"big $i", large(i.toLong, if (i == 7) 3000000 else 100))
          id = idOf()
          b.commit(id)
          Thread.sleep(5)
        }
        b.maintain()
        assert(!merged.exists(at.files("3").contains), "unused, and older than all that is kept")
        a.load(12, id)
        change(a, "p", 0, "last", "1")
        id = idOf()
        a.commit(id)
        withStore(at.storage) { reader =>
          reader.load(13, id)
          assert(content(reader).size == 13)
        }
      } finally Seq(a, b).foreach(_.close())
    }

    test(s"$format: a zombie's merge and clean-up harm nothing that its successor needs") {
      val at = new Faulty()
      val settings = StoreSettings(minVersionsToRetain = 3, minVersionsToDelete = 1)
      val (zombie, store) = (newStore(at.storage, settings), newStore(at.storage, settings))
      try {
        zombie.load(0, None)
        register(zombie)
        val base = commits(zombie, 1 to 6)
        // A batch that failed: the successor does it again.
        change(zombie, "p", 0, "failed", large(0))
        zombie.commit(idOf())
        val end = at.held("rename", """\.(sst|lz4)$""")(zombie.maintain())
        store.load(6, base)
        val id = commits(store, 7 to 9)
        store.maintain()
        val last = commits(store, 10 to 12)
        store.maintain()
        // The zombie may find its own files gone, and no more.
        end().foreach(e => assert(e.isInstanceOf[FileNotFoundException]))
        try zombie.maintain()
        catch { case e: MissingRunException => assert(e.getMessage.contains("Version 7 ")) }
        Seq((9L, id, 1 to 9), (12L, last, 1 to 12)).foreach { case (version, versionId, range) =>
          withStore(at.storage) { reader =>
            reader.load(version, versionId)
            assert(content(reader) == expected(range), s"version $version")
          }
        }
        store.load(12, last)
        assert(content(store) == expected(1 to 12))
      } finally Seq(zombie, store).foreach(_.close())
    }

    test(
      s"$format: a zombie's commit lands after clean-ups; the oldest versions load all the same"
    ) {
      val at = new Faulty()
      val settings = StoreSettings(minVersionsToRetain = 1, minVersionsToDelete = 1)
      val (zombie, store) = (newStore(at.storage, settings), newStore(at.storage, settings))
      try {
        zombie.load(0, None)
        register(zombie)
        val base = commits(zombie, 1 to 6)
        val end = at.held("rename", """/7\S*\.keystate$""")(commits(zombie, 7 to 7))
        store.load(6, base)
        store.maintain()
        val seventh = commits(store, 7 to 7)
        store.maintain()
        val last = commits(store, 8 to 8)
        store.maintain()
        assert(end().isEmpty)
        // Version 8 may be of a batch that is not committed; then the query goes on from 7.
        Seq((7L, seventh), (8L, last)).foreach { case (version, id) =>
          withStore(at.storage) { reader =>
            reader.load(version, id)
            assert(content(reader) == expected(1 to version.toInt), s"version $version")
          }
        }
      } finally Seq(zombie, store).foreach(_.close())
    }

    test(s"$format: what dead processes left behind goes, temporary files too") {
      val at = new Faulty()
      val settings = StoreSettings(minVersionsToRetain = 2, minVersionsToDelete = 1)
      var id = Option.empty[String]
      withStore(at.storage, settings) { store =>
        store.load(0, None)
        register(store)
        id = commits(store, 1 to 1)
      }
      val deaths = Seq("write" -> """\.(sst|lz4)$""", "close" -> """/2\S*\.keystate$""")
      deaths.foreach { case (step, file) =>
        val dying = newStore(at.storage, settings)
        dying.load(1, id)
        at.suffers(step, 1, "dead", file)(commits(dying, 2 to 2))
        dying.close()
      }
      def temporary = at.files("3").filter(_.endsWith(".tmp"))
      assert(temporary.size == 2)
      val orphan = at.files("3").filter(_.startsWith("2-"))
      assert(orphan.size == 1, "a run without a version")
      withStore(at.storage, settings) { store =>
        store.load(1, id)
        commits(store, 2 to 2)
        store.maintain()
        assert(temporary.size == 2, "they could be of a commit under way")
        (3 to 8).foreach { i =>
          Thread.sleep(5)
          commits(store, i to i)
        }
        store.maintain()
        assert(content(store) == expected(1 to 8))
      }
      assert(temporary.isEmpty)
      assert(!at.files("3").exists(orphan.contains))
    }
  }
}

class RocksDBMaintenanceFaultSuite extends MaintenanceFaultSuite with OnRocksDB
