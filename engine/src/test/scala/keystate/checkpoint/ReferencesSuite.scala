package keystate.checkpoint

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{CheckpointException, UnsupportedFormatException}
import keystate.files.StoreLocation
import keystate.version.{FileSource, References, SharedPath, VersionFile}

class ReferencesSuite extends AnyFunSuite with StoreFixture {
  private val maxParallelism = 8
  private val settings =
    StoreSettings(Some(maxParallelism), minVersionsToRetain = 1, minVersionsToDelete = 1)
  private val rounds = if (sys.env.contains("SLOW")) 40 else 2

  private def at(partition: Int) = StoreLocation(0, partition, StoreLocation.DefaultStore)

  for (format <- Seq("v1", "v2"))
    test(s"$format: a file is there as long as one reference to it is, and no longer") {
      val seed = System.nanoTime
      info(s"seed $seed")
      withClue(s"seed $seed: ")((0 until rounds).foreach(i => run(seed + i, format == "v2")))
    }

  /** A query that commits, merges, cleans up and rescales; savepoints by reference come and go. */
  private def run(seed: Long, withIds: Boolean): Unit = {
    val random = new Random(seed)
    val storage = new MemoryStorage
    var ids = Seq.fill(1 + random.nextInt(3))(Option.empty[String])
    var version = 0L
    // The files of each savepoint, and its references.
    val held = mutable.LinkedHashMap.empty[String, (Set[String], Seq[String])]

    def stores[T](body: Seq[VersionedStore] => T): T = {
      val opened = ids.indices.map { partition =>
        newStore(storage, settings.copy(parallelism = Some(ids.size)), at(partition))
      }
      try body(opened)
      finally opened.foreach(_.close())
    }

    def batches(count: Int): Unit = stores { opened =>
      opened.zip(ids).foreach { case (store, id) => store.load(version, id) }
      (1 to count).foreach { _ =>
        ids = opened.map { store =>
          register(store)
          val groups = store.manifest.partitioning.groups
          val group = groups.first + random.nextInt(groups.size)
          change(store, "p", group, s"${random.nextInt(5)}", large(random.nextLong(), 70000))
          val id = if (withIds) newId() else None
          store.commit(id)
          id
        }
        version += 1
        opened.foreach(_.maintain())
      }
    }

    def savepoint(name: String): Unit = {
      val local = newLocalFolder()
      try {
        val files = ids.zipWithIndex.map { case (id, partition) =>
          val reader = new StoreReader(at(partition), storage, local)
          val listed = StoreReader.files(reader.manifest(version, id, ids.size))
          References.write(storage, at(partition), version, name, listed)
          listed
        }
        assert(ids.indices.forall(p => References.isSafe(storage, at(p), version)))
        val paths = ids.indices.map(p => References.path(at(p), version, name))
        held(name) = files.flatten.toSet -> paths
      } finally local.close()
    }

    batches(2)
    (1 to 40).foreach { i =>
      (if (i == 1) 0 else random.nextInt(8)) match {
        case 0 => savepoint(s"s$i")
        case 1 if held.nonEmpty =>
          val name = held.keys.toSeq(random.nextInt(held.size))
          held.remove(name).get._2.foreach(storage.delete)
        case 2 =>
          ids = rescale(storage, version, ids, 1 + random.nextInt(3))
          if (!withIds) ids = ids.map(_ => None)
        case _ => batches(1 + random.nextInt(4))
      }
      val lost = held.values.flatMap(_._1).filterNot(storage.exists)
      assert(lost.isEmpty, s"lost after step $i")
    }
    // All let go: what is left is what a query without savepoints keeps.
    held.values.flatMap(_._2).foreach(storage.delete)
    held.clear()
    batches(12)
    val needed = ids.indices.flatMap { partition =>
      storage.list(at(partition).folder).map(_.name).flatMap(VersionFile.parse).flatMap {
        case (of, name) => StoreReader.files(VersionFile.read(storage, at(partition), of, name))
      }
    }.toSet
    val recent = version - 6
    val left = storage.runs.filterNot(needed).filterNot { path =>
      RunFiles.versionOf(path.split('/').last).exists(_ >= recent)
    }
    assert(left == Nil, "nobody needs them")
    assert(leftBehind.isEmpty)
    ()
  }

  test("a reference comes too late for a version that is not one of the newest") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      (1 to 5).foreach { i =>
        change(store, "p", i, "key", "value")
        store.commit(None)
      }
    }
    assert((3L to 5L).map(References.isSafe(storage, location, _)) == Seq(false, true, true))
  }

  test("a damaged reference, and one of another format, keep clean-up from deleting any run") {
    for (
      damage <- Seq[String => String](_.replace("REFERENCE 1", "REFERENCE 2"), _.drop(1), _ => "")
    ) {
      val storage = new MemoryStorage
      withStore(storage, settings.copy(maxParallelism = None)) { store =>
        store.load(0, None)
        register(store)
        def commit(i: Int): Unit = {
          change(store, "p", i % 7, s"$i", large(i.toLong))
          store.commit(None)
          ()
        }
        (1 to 3).foreach(commit)
        References.write(storage, location, 3, "id", Seq("3/1-x.lz4"))
        storage.damage(References.path(location, 3, "id")) { bytes =>
          damage(new String(bytes, "UTF-8")).getBytes("UTF-8")
        }
        val runs = storage.runs
        (4 to 20).foreach { i =>
          commit(i)
          try store.maintain()
          catch { case _: CheckpointException => }
        }
        assert(runs.forall(storage.exists))
      }
    }
  }

  test("a version file lists another checkpoint's files only where those of a store can be") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      change(store, "p", 1, "key", large(1))
      val own = store.commit(None)
      val shared = own.copy(runs = own.runs.map { run =>
        val FileSource(path) = run.source: @unchecked
        run.copy(source = FileSource(SharedPath("base", 0, path).toString))
      })
      VersionFile.write(storage, location, shared)
      assert(VersionFile.read(storage, location, 1, None) == shared)
      Seq("@base/../../etc/3/1-x.lz4", "@base/0/3/passwd", "@/0/3/1-x.lz4", "@base/x/3/1-x.lz4")
        .foreach { bad =>
          VersionFile.write(
            storage,
            location,
            shared.copy(runs = shared.runs.map { run =>
              run.copy(source = FileSource(bad))
            })
          )
          intercept[CheckpointException](VersionFile.read(storage, location, 1, None))
        }
    }
    intercept[UnsupportedFormatException] {
      VersionFile.write(storage, location, withFile)
      storage.damage("3/1.keystate")(bytes => withCrc(bytes.updated(11, 3.toByte)))
      VersionFile.read(storage, location, 1, None)
    }
  }

  private def withFile = withStore(new MemoryStorage) { store =>
    store.load(0, None)
    register(store)
    store.commit(None)
  }

  private def withCrc(bytes: Array[Byte]): Array[Byte] = {
    val body = bytes.dropRight(4)
    val crc = keystate.files.Crc32c.of(body)
    body ++ java.nio.ByteBuffer.allocate(4).putInt(crc).array
  }
}
