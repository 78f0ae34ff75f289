package org.apache.spark.sql.keystate.files

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.NoSuchFileException

import scala.util.{Random, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import keystate.config.Settings
import keystate.faults.{ObjectFileSystem, Requests}

/** What a run knows of its checkpoint is what the store has, and the store is asked once. */
class CheckpointCacheSuite extends AnyFunSuite {

  private def conf(rename: Boolean) = {
    val conf = new Configuration
    ObjectFileSystem.settings(rename).foreach { case (key, value) => conf.set(key, value) }
    conf.set(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key, Settings.FileManagerClass)
    conf
  }

  /** A checkpoint that this thread's run has, with what knows of it and what does not. */
  private def withRun(scheme: String, conf: Configuration)(
      test: (Path, CheckpointFileManager, CheckpointFileManager) => Any
  ): Unit = {
    val folder = Utils.createTempDir(namePrefix = "keystate-memory")
    val root = new Path(s"$scheme:$folder/checkpoint")
    try {
      val store = CheckpointFiles.create(root, conf)
      store.mkdirs(new Path(root, "_keystate/owners"))
      CheckpointOwner.take(root, conf, "this")
      test(root, CheckpointFiles.ofRun(root, conf), store)
      ()
    } finally {
      CheckpointOwner.release(root, "this")
      Utils.deleteRecursively(folder)
    }
  }

  private def write(
      files: CheckpointFileManager,
      path: Path,
      text: String,
      overwrite: Boolean = false
  ): Boolean =
    try {
      CheckpointFiles.write(files, path, overwrite)(_.write(text.getBytes(UTF_8)))
      true
    } catch { case _: FileAlreadyExistsException => false }

  private def read(files: CheckpointFileManager, path: Path): Option[String] =
    try Some(Using.resource(files.open(path))(in => new String(in.readAllBytes(), UTF_8)))
    catch { case _: FileNotFoundException | _: NoSuchFileException => None }

  private def list(files: CheckpointFileManager, path: Path): Set[String] =
    try files.list(path).map(_.getPath.getName).filterNot(_.startsWith(".")).toSet
    catch { case _: FileNotFoundException => Set.empty }

  private val folders = Seq(
    "offsets",
    "commits",
    "sources/0",
    "sources/1",
    "state",
    "state/0/_metadata",
    "state/0/_metadata/v2",
    "state/0/_stateSchema",
    "state/0/_stateSchema/default",
    "state/1/_keystate",
    "state/1/0",
    "state/1/0/_metadata"
  )

  for ((scheme, rename) <- Seq("file" -> false, "objects" -> false, "objects" -> true))
    test(s"it never differs from the store: $scheme${if (rename) ", which renames" else ""}") {
      for (seed <- 1 to 10) withRun(scheme, conf(rename)) { (root, run, store) =>
        val random = new Random(seed)
        def folder = new Path(root, folders(random.nextInt(folders.size)))
        def file = {
          val names = Seq("0", "1", "2", "operator", "metadata")
          // An entry of the commit log ends the time in which metadata is known.
          val rare = Set("commits", "state")
          val in = Iterator
            .continually(folder)
            .filter(in => !rare(in.getName) || in.getName == "commits" && random.nextInt(50) == 0)
            .next()
          new Path(in, names(random.nextInt(names.size)))
        }
        (1 to 400).foreach { step =>
          val clue = s"seed $seed, step $step"
          random.nextInt(12) match {
            case 0 | 1 =>
              val path = file
              val isThere = store.exists(path)
              store.mkdirs(path.getParent)
              run.mkdirs(path.getParent)
              // Where files are renamed, Spark logs each one that it does not write over.
              if (scheme == "objects" && !rename || !isThere)
                assert(write(run, path, s"$step") != isThere, clue)
            case 2 =>
              val path = file
              run.mkdirs(path.getParent)
              assert(write(run, path, s"again $step", overwrite = true), clue)
            case 3 => run.delete(file)
            case 4 if random.nextInt(10) == 0 => run.delete(folder)
            case 5 =>
              val path = folder
              if (store.exists(path.getParent)) run.mkdirs(path)
            case 6 | 7 =>
              val path = file
              assert(read(run, path) == read(store, path), s"$clue: $path")
            case 8 | 9 =>
              val path = folder
              assert(list(run, path) == list(store, path), s"$clue: $path")
            case _ =>
              val path = if (random.nextBoolean()) file else folder
              assert(run.exists(path) == store.exists(path), s"$clue: $path")
          }
        }
      }
    }

  private val objects = conf(rename = false)

  private def requests(body: => Any): Seq[String] =
    Requests.of(body).map(request => s"${request.verb} ${request.path.split("/checkpoint/")(1)}")

  test("a log is listed once and an entry read once, and what was written is known") {
    withRun("objects", objects) { (root, run, store) =>
      val log = new Path(root, "sources/0")
      write(store, new Path(log, "0"), "zero")
      assert(requests {
        assert(run.exists(log) && list(run, log) == Set("0"))
        assert((1 to 3).flatMap(_ => read(run, new Path(log, "0"))).toSet == Set("zero"))
      } == Seq("LIST sources/0", "GET sources/0/0"))
      assert(requests {
        assert(!run.exists(new Path(log, "1")))
        assert(write(run, new Path(log, "1"), "one"))
        assert(run.exists(new Path(log, "1")))
        assert(read(run, new Path(log, "1")).contains("one"))
        assert(list(run, log) == Set("0", "1"))
      } == Seq("PUT sources/0/1"))
    }
  }

  test("a start reads side by side what it will ask for") {
    withRun("objects", objects) { (root, _, store) =>
      val there = Seq(
        "offsets/7",
        "offsets/8",
        "commits/7",
        "sources/0/8",
        "state/0/_metadata/v2/3",
        "state/0/_keystate/operator"
      )
      there.foreach(name => write(store, new Path(root, name), name))
      CheckpointOwner.take(root, objects, "this")
      val run = CheckpointFiles.ofRun(root, objects)
      assert(requests {
        there.foreach(name => assert(read(run, new Path(root, name)).contains(name)))
        assert(list(run, new Path(root, "state")) == Set("0"))
      } == Nil)
    }
  }

  test("an entry that another driver wrote is not written over") {
    withRun("objects", objects) { (root, run, store) =>
      val entry = new Path(root, "commits/0")
      assert(!run.exists(entry) && list(run, entry.getParent).isEmpty)
      write(store, entry, "the other's")
      assert(!run.exists(entry)) // the run can't know
      assert(!write(run, entry, "this one's"))
      assert(run.exists(entry) && read(run, entry).contains("the other's"))
    }
  }

  test("other threads see the store, and the next run too") {
    withRun("objects", objects) { (root, run, store) =>
      val entry = new Path(root, "commits/0")
      write(run, entry, "before")
      write(store, entry, "after", overwrite = true)
      assert(read(run, entry).contains("before"))
      var seen = Option.empty[String]
      val other = new Thread(() => seen = read(run, entry))
      other.start()
      other.join()
      assert(seen.contains("after"))
      CheckpointOwner.take(root, objects, "this")
      assert(read(run, entry).contains("after"))
    }
  }

  test("after the first commit the store is asked for metadata again") {
    withRun("objects", objects) { (root, run, store) =>
      val metadata = new Path(root, "state/0/_metadata/v2/0")
      write(run, metadata, "before")
      assert(requests(read(run, metadata)) == Nil)
      write(run, new Path(root, "commits/0"), "")
      write(store, metadata, "after", overwrite = true)
      assert(read(run, metadata).contains("after"))
    }
  }

  test("what is large is not kept, and not all that is small") {
    withRun("objects", objects) { (root, run, _) =>
      val large = new Path(root, "sources/0/9.compact")
      val text = "x" * (CheckpointCache.MostOfFile + 1)
      write(run, large, text)
      assert(requests(assert(read(run, large).contains(text))) == Seq("GET sources/0/9.compact"))
      val entries = (0 to 8).map(i => new Path(root, s"sources/0/$i"))
      entries.foreach(write(run, _, "y" * (CheckpointCache.MostOfFile / 2)))
      assert(requests(read(run, entries.last)) == Nil)
      assert(requests(read(run, entries.head)) == Seq("GET sources/0/0"))
    }
  }

  test("without Keystate's manager for Spark's logs nothing is known") {
    val others = new Configuration(objects)
    others.unset(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key)
    withRun("objects", others) { (root, run, store) =>
      val entry = new Path(root, "commits/0")
      write(run, entry, "before")
      write(store, entry, "after", overwrite = true)
      assert(read(run, entry).contains("after"))
    }
  }
}
