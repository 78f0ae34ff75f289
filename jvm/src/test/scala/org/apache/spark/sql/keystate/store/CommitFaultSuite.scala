package org.apache.spark.sql.keystate.store

import org.scalatest.funsuite.AnyFunSuite

import keystate.checkpoint.{OnRocksDB, VersionedStore}
import keystate.errors.CorruptFileException

/** Commits that are cut short, come late or meet a file system that renames in its own way. */
class CommitFaultSuite extends AnyFunSuite with FaultyStores {
  private val first = Map(("p", 1, "a") -> large(1), ("g", 5, "b") -> "1")
  private val second = first + (("p", 1, "a") -> large(2)) - (("g", 5, "b"))

  private def begin(store: VersionedStore): Unit = {
    store.load(0, None)
    register(store)
    change(store, "p", 1, "a", large(1))
    change(store, "g", 5, "b", "1")
  }

  private def goOn(store: VersionedStore, id: Option[String]): Unit = {
    store.load(1, id)
    change(store, "p", 1, "a", large(2))
    change(store, "g", 5, "b", null)
  }

  private def assertVersion(at: Faulty, version: Long, id: Option[String], expected: Content): Any =
    withStore(at.storage) { store =>
      store.load(version, id)
      assert(content(store) == expected, s"version $version")
    }

  for (format <- Seq("v1", "v2")) {
    def idOf(): Option[String] = if (format == "v2") newId() else None

    def withBase(at: Faulty): Option[String] = {
      val base = idOf()
      withStore(at.storage) { store =>
        begin(store)
        store.commit(base)
      }
      base
    }

    for (rename <- Seq("replace", "objects"))
      test(s"$format, $rename: a process that dies at any step of a commit") {
        val at = new Faulty(rename)
        val base = withBase(at)
        var deaths = 0
        var died = true
        while (died) {
          val store = newStore(at.storage)
          goOn(store, base)
          val (dead, zombie) = (at.during("any", deaths + 1L, "dead")(store.commit(idOf())), idOf())
          died = at.happened
          store.close()
          if (died) {
            assert(dead.isDefined)
            deaths += 1
            assertVersion(at, 1, base, first)
            withStore(at.storage) { retry =>
              goOn(retry, base)
              retry.commit(zombie)
            }
            assertVersion(at, 2, zombie, second)
          }
        }
        // Of a run and of the version file: create, close, rename, renamed. In an object store there
        // are only close, which makes the file, and what comes after it.
        assert(deaths >= (if (rename == "objects") 4 else 8))
        assert(leftBehind.isEmpty)
      }

    for (rename <- Seq("replace", "objects"))
      test(s"$format, $rename: a file that is cut off at a byte does not appear") {
        val at = new Faulty(rename)
        val base = withBase(at)
        for {
          file <- Seq("""\.(sst|lz4)$""", """/2\S*\.keystate$""")
          byte <- Seq(0L, 1, 100, 300)
          action <- Seq("fail", "dead")
        } withStore(at.storage) { store =>
          goOn(store, base)
          val before = at.files("3").filterNot(_.startsWith("."))
          at.suffers("write", byte, action, file)(store.commit(idOf()))
          val after = at.files("3").filterNot(_.startsWith("."))
          assert(
            after.diff(before).forall(_.matches(""".*\.(sst|lz4)""")),
            "runs that nothing names at most"
          )
          assert(!store.isLoaded)
          assertVersion(at, 1, base, first)
          val retry = idOf()
          goOn(store, base)
          store.commit(retry)
          assertVersion(at, 2, retry, second)
        }
      }

    for (rename <- Seq("replace", "refuse", "copy"))
      test(s"$format: a zombie's files come late, on a file system that renames by '$rename'") {
        val at = new Faulty(rename)
        val base = withBase(at)
        val (winner, next, late) = (idOf(), idOf(), idOf())
        val zombie = newStore(at.storage)
        val end = at.held("rename", """/2\S*\.keystate$""") {
          goOn(zombie, base)
          zombie.commit(late)
        }
        withStore(at.storage) { store =>
          goOn(store, base)
          store.commit(winner)
          change(store, "p", 9, "c", "3")
          store.commit(next)
        }
        assert(end().isEmpty)
        val third = second + (("p", 9, "c") -> "3")
        assertVersion(at, 2, winner, second)
        assertVersion(at, 3, next, third)
        // And the zombie's executor is given the task again.
        zombie.load(3, next)
        assert(content(zombie) == third)
        zombie.load(2, winner)
        assert(content(zombie) == second)
        zombie.close()
      }

    test(s"$format: a rename that returns false for no reason") {
      val at = new Faulty()
      val base = withBase(at)
      Seq("""\.(sst|lz4)$""", """/2\S*\.keystate$""").foreach { file =>
        withStore(at.storage) { store =>
          goOn(store, base)
          val e = at.suffers("rename", 1, "false", file)(store.commit(idOf()))
          assert(e.getMessage.contains("rename"))
          assertVersion(at, 1, base, first)
        }
      }
    }

    test(s"$format: a process dies while a file system without atomic renames copies") {
      Seq("""\.(sst|lz4)$""", """/2\S*\.keystate$""").foreach { file =>
        val at = new Faulty("copy")
        val base = withBase(at)
        val (broken, retry) = (idOf(), idOf())
        val store = newStore(at.storage)
        goOn(store, base)
        at.suffers("copying", 1, "dead", file)(store.commit(broken))
        store.close()
        if (file.contains("keystate")) {
          val e = intercept[CorruptFileException](assertVersion(at, 2, broken, second))
          assert(e.getMessage.contains(at.folder.getPath))
        }
        withStore(at.storage) { again =>
          goOn(again, base)
          again.commit(retry)
        }
        assertVersion(at, 2, retry, second)
      }
    }
  }

  test("v1: a commit over an existing version on a file system that does not replace files") {
    val at = new Faulty("refuse")
    withStore(at.storage) { store =>
      begin(store)
      store.commit(None)
      goOn(store, None)
      store.commit(None)
    }
    // The batch is done again: the file of the first attempt stays, and is as good.
    withStore(at.storage) { store =>
      goOn(store, None)
      store.commit(None)
      change(store, "p", 9, "c", "3")
      store.commit(None)
    }
    assertVersion(at, 2, None, second)
    assertVersion(at, 3, None, second + (("p", 9, "c") -> "3"))
  }
}

class RocksDBCommitFaultSuite extends CommitFaultSuite with OnRocksDB
